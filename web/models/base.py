"""What all bodies share: unknown fields are refused, and nothing is converted from another type."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from storage.alias_records import MAX_ALIAS_CHARS
from web import limits


class Body(BaseModel):
    """A JSON object with exactly the fields of its class."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def _whole(value: Any) -> Any:
    """Return a number without its zero fraction: to JSON, 3.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)
"""Annotates integers: to be read however they are written."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=limits.TEXT_CHARS, pattern=r"\S")]
"""Some text that is not blank."""

_CONTROL = r"\x00-\x1f\x7f-\x9f"

_NAME = rf"^[^{_CONTROL}]*[^\s{_CONTROL}][^{_CONTROL}]*$"

DocumentId = Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_CHARS, pattern=_NAME)]
"""An id of the user's own: not blank, no control characters."""

StoredText = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
"""Text that can be stored: any but NUL."""

Title = Annotated[str, StringConstraints(max_length=limits.TITLE_CHARS, pattern=r"^[^\x00]*$")]
"""A title; it may be empty."""

Filter = Annotated[str, StringConstraints(max_length=limits.FILTER_CHARS)]
"""An expression over the fields of documents; see docs/how-to/filter.md."""

AddressFilter = Annotated[str, StringConstraints(max_length=limits.ADDRESS_FILTER_CHARS)]
"""A filter in an address, which servers read up to some thousand bytes."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ALIAS_CHARS, pattern=_NAME)]
"""Another name of a document: not blank, no control characters."""
