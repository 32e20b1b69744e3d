"""What filling a table takes over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from adapters.filling.filler import MAX_RELATIONS, MAX_VALUES, FillOptions
from adapters.filling.table import TableFormat
from kbengine.search.query import MAX_READ
from web import limits
from web.models.base import AddressFilter, Body

Column = Annotated[str, StringConstraints(min_length=1, max_length=limits.TITLE_CHARS)]

Relation = Annotated[str, StringConstraints(min_length=1, max_length=limits.RELATION_CHARS)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class FillQuery(Body):
    """What is filled; parameters of an address are text, so values are read from it."""

    model_config = ConfigDict(strict=False)

    name: str = Field("", max_length=limits.ID_CHARS, description="The file's name; it tells the table's format.")
    subject: Column | None = Field(None, description="The column of names.")
    relation: Annotated[list[Relation], BeforeValidator(_as_list)] = Field(
        [],
        max_length=MAX_RELATIONS,
        description="What is wanted of each name: words, a Wikidata id such as P19, or a wording with X. Several times "
        "for several.",
    )
    question: Column | None = Field(None, description="The column of questions, instead of names and relations.")
    context: Column | None = Field(None, description="A column of text that says who is meant.")
    ids: Column | None = Field(None, description="A column of ids of documents, where it is known who is meant.")
    values: int = Field(1, ge=1, le=MAX_VALUES, description="How many values a cell may have.")
    threshold: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="The probability that an answer has to reach."
    )
    where: AddressFilter | None = Field(None, description="Answer from documents whose fields pass this.")
    evidence: bool = Field(True, description="Give the sentence and document of each answer.")
    encoder: str | None = Field(None, max_length=limits.ID_CHARS, description="The name of a tuned encoder.")
    read: int | None = Field(
        None, ge=0, le=MAX_READ, description="Best passages that a reader reads for each answer, 0 none."
    )
    format: TableFormat | None = Field(None, description="Of the table; by default its name or media type says it.")
    out: TableFormat | None = Field(None, description="Of the filled table; by default that of the table.")

    def options(self, relations: list[str]) -> FillOptions:
        """Return what is filled; `relations` are all that the address gives.

        Raises:
            InvalidOptionError: it is neither names nor questions, or both.
            UnknownRelationError: a relation is a Wikidata id that the table of relations lacks.
        """
        return FillOptions(
            self.subject,
            tuple(relations),
            self.question,
            self.context,
            self.ids,
            self.values,
            self.threshold,
            self.where,
            self.evidence,
            self.encoder,
            self.read,
        )
