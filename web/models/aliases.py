"""Other names of documents as bodies."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from storage.alias_records import MAX_ALIAS_CHARS, AliasSource
from web import limits
from web.models.base import Body, Name


class NewAliases(Body):
    """Other names for a document, all of them given or none."""

    document: str = Field(min_length=1, max_length=limits.ID_CHARS, description="The document's id.")
    aliases: list[Name] = Field(min_length=1, max_length=limits.ALIASES)
    prior: float | None = Field(
        None, gt=0, le=1, allow_inf_nan=False, description="How probably such a name means this document; else counted."
    )
    replace: bool = Field(False, description="Whether names that are there already get the new prior.")


class AliasesToDelete(Body):
    """Names to take from a document, all of these or none; without `aliases` all that it has."""

    document: str = Field(min_length=1, max_length=limits.ID_CHARS, description="The document's id.")
    aliases: list[Name] | None = Field(None, min_length=1, max_length=limits.ALIASES)


class AliasCommitted(Body):
    """A change of names that is durable, and used by every query from now on."""

    generation: int
    aliases: int = Field(description="How many names it touched.")
    repeated: bool = Field(description="Whether an earlier request with the same Idempotency-Key had done it already.")


class AliasEntry(Body):
    """Another name of a document."""

    alias: str
    document: str = Field(description="The document's id.")
    title: str
    source: str = Field(description="Where the name is from.")
    prior: float = Field(description="How probably the name means this document.")
    uses: int = Field(description="How often the source has the name for the document; 0 if unknown.")


class AliasList(Body):
    """One page of names."""

    aliases: list[AliasEntry]
    next_page_token: str | None
    generation: int


class AliasQuery(Body):
    """What a listing of names may be asked."""

    model_config = ConfigDict(strict=False)

    document: str = Field("", max_length=limits.ID_CHARS, description="Only names of this document.")
    prefix: str = Field("", max_length=MAX_ALIAS_CHARS, description="Only names that begin so, case folded.")
    source: AliasSource | None = Field(None, description="Only names from there.")
    limit: int = Field(50, ge=1, le=limits.PAGE_ITEMS)
    page_token: str = Field("", max_length=limits.TOKEN_CHARS, description="Of the page before; empty for the first.")


class NameQuery(Body):
    """A name whose documents are wanted."""

    name: Name


class NamedDocument(Body):
    """A document that a name can mean."""

    document: str
    title: str
    alias: str = Field(description="Its name as stored.")
    form: str = Field(description="How it matches: exact, case, accent.")
    prior: float


class NamedDocuments(Body):
    """The documents that a name can mean, best first."""

    matches: list[NamedDocument]
    generation: int
