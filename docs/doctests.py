"""Examples of docstrings as blocks of code: an extension of griffe, which reads the docstrings for the site."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts each example, from its prompt to the next blank line, into a block."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mark the examples of one object's docstring."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^>>> .*(?:\n.+)*", r"```pycon\n\g<0>\n```", obj.docstring.value, flags=re.M)
