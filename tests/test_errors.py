"""Every error has a code of its own, an exit code, and a place in the tree that is drawn."""

from __future__ import annotations

import adapters.errors
import kbengine.errors
import storage.errors
import web.errors
from storage.errors import KBError


def all_errors(base=KBError):
    """Return the class and all its subclasses."""
    return [base, *(found for child in base.__subclasses__() for found in all_errors(child))]


def test_every_error_has_its_own_code_and_an_exit_code():
    """Programs tell errors apart by `code`; the shell gets 1 for failure and 2 for usage."""
    errors = [each for each in all_errors() if not each.__module__.startswith("tests")]

    assert len({each.code for each in errors}) == len(errors)
    assert {each.exit_code for each in errors} == {1, 2}


def test_every_error_is_defined_by_its_docstring_and_drawn_in_the_tree():
    """The module's tree names each class once."""
    drawn = "".join(module.__doc__ for module in (storage.errors, kbengine.errors, adapters.errors, web.errors))

    for each in all_errors():
        assert each.__doc__, each
        assert each.__name__ in drawn, each


def test_kbengine_reexports_the_tree_of_storage():
    """Callers need one module to catch everything below the tasks."""
    for name in kbengine.errors.__all__:
        assert issubclass(getattr(kbengine.errors, name), KBError)
