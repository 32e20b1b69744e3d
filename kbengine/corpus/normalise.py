"""Text normalisation of SQuAD's evaluator, which KILT's shares to the letter."""

from __future__ import annotations

import re
import string

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def norm(text: str) -> str:
    """`text` lower-cased, without ASCII punctuation, without English articles, with single blanks.

    The order of the steps is part of the definition: `U.S.-based` becomes `usbased`, `A's` becomes `as` and
    `an-droid` becomes `android`. Curly quotes and dashes are not ASCII punctuation and stay.
    """
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())
