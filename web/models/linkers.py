"""What REL's API reads, and how NIF's links are named."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from adapters.nif.documents import Uris
from web import limits
from web.models.base import Body

Place = Annotated[list[int], Field(min_length=2, max_length=2)]


class RelQuery(Body):
    """A text, and the mentions in it."""

    text: str = Field(max_length=limits.ANNOTATED_CHARS)
    spans: list[Place | dict[str, int]] = Field(
        default=[],
        max_length=limits.DOCUMENTS,
        description="Start and length of each mention; none: they are found.",
    )
    tagger: str | None = Field(None, max_length=limits.ID_CHARS, description="Of REL's own; names are found one way.")

    def places(self) -> list[tuple[int, int]]:
        """Return start and length of each mention; GERBIL sends them as objects of these two."""
        given = [list(each.values()) if isinstance(each, dict) else each for each in self.spans]
        return [(each[0], each[1]) if len(each) == 2 else (-1, 0) for each in given]


class NifQuery(Body):
    """How links are named."""

    model_config = ConfigDict(strict=False)

    uris: Uris = Field(
        "source",
        description="By its source's address, its field `qid`, or its title as that of an article.",
    )
    threshold: float = Field(
        0.5, ge=0, le=1, allow_inf_nan=False, description="The probability of a link, where mentions are found."
    )
