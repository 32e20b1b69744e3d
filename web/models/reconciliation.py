"""What the Reconciliation Service API 0.2 sends: forms that hold JSON, and the parameters of its addresses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, RootModel, model_validator

from adapters.reconciliation.extending import Shown, WantedProperty
from adapters.reconciliation.query import KnownValue, ReconciliationQuery
from web import limits
from web.models.base import Body, Whole

BATCH = 64
"""Queries of one batch, as the manifest says."""
CANDIDATES = 10
"""Candidates of a query that does not say how many."""
Cell = Annotated[str, Field(max_length=limits.TEXT_CHARS)]
EntityId = Annotated[str, Field(max_length=limits.ID_CHARS)]


class Sent(Body):
    """What a tool sends; parameters that are not ours (a time, against caches) do no harm."""

    model_config = ConfigDict(strict=False, extra="ignore")


class ReconcileForm(Body):
    """A batch of queries, or a request for values; with neither the answer is the manifest."""

    queries: str | None = Field(None, description="A reconciliation query batch, as JSON.")
    extend: str | None = Field(None, description="A data extension query, as JSON.")


class ReconcileQuery(Sent, ReconcileForm):
    """The same in an address."""


class SuggestQuery(Sent):
    """What was typed so far."""

    prefix: Cell = Field("", description="The first letters of an id or a name.")
    cursor: int = Field(0, ge=0, le=limits.K, description="How many suggestions to skip.")


class ProposalQuery(Sent):
    """The type whose properties are wanted."""

    type: EntityId = Field("", description="A type's id; it changes nothing yet.")
    limit: int = Field(50, ge=1, le=limits.K)


class PreviewQuery(Sent):
    """The document to show."""

    id: Annotated[str, Field(min_length=1, max_length=limits.ID_CHARS)]


class Entity(Body):
    """A value that is a document."""

    model_config = ConfigDict(extra="ignore")

    id: EntityId
    name: Cell | None = None


Value = bool | int | float | Cell | Entity


class PropertyBody(Body):
    """A property whose value, or values, are known."""

    pid: Cell
    v: Value | list[Value]

    def known(self) -> KnownValue:
        """Return it with its values as texts."""
        values = self.v if isinstance(self.v, list) else [self.v]
        return KnownValue(self.pid, tuple(map(_text, values)))


class QueryBody(Body):
    """One name that is looked for, or known values whose document is."""

    query: Cell | None = None
    type: EntityId | list[EntityId] | None = None
    type_strict: Literal["any", "should", "all"] = "any"
    limit: Annotated[int, Whole, Field(ge=1)] = CANDIDATES
    properties: list[PropertyBody] = Field(default=[], max_length=limits.SPANS)

    @model_validator(mode="after")
    def _asks_something(self) -> QueryBody:
        if self.query is None and not self.properties:
            raise ValueError("there is neither a query nor a property; give one of them")
        return self

    def query_for(self) -> ReconciliationQuery:
        """Return the query; more candidates than the service gives are not given."""
        types = [self.type] if isinstance(self.type, str) else self.type or []
        known = tuple(each.known() for each in self.properties)
        return ReconciliationQuery(
            self.query or "", tuple(types), self.type_strict, min(self.limit, limits.SPANS), known
        )


class QueryBatch(RootModel[dict[str, QueryBody]]):
    """Queries by names of the sender's."""


class SettingsBody(Sent):
    """How the values of a property are given."""

    limit: int = Field(0, ge=0, description="Values at most; 0 for all.")
    threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    show: Shown = "value"

    @model_validator(mode="before")
    @classmethod
    def _leave_out_blanks(cls, given: Any) -> Any:
        """Read an empty field of a dialog as one that is not given."""
        return {name: value for name, value in given.items() if value != ""} if isinstance(given, dict) else given


class WantedBody(Body):
    """A property that is wanted."""

    model_config = ConfigDict(extra="ignore")

    id: Annotated[str, Field(min_length=1, max_length=limits.TEXT_CHARS, pattern=r"\S")]
    settings: SettingsBody | None = None

    def wanted(self) -> WantedProperty:
        """Return it with its settings."""
        settings = self.settings or SettingsBody.model_validate({})
        return WantedProperty(self.id, settings.limit, settings.threshold, settings.show)


class ExtendBody(Body):
    """Documents, and what is wanted of each."""

    model_config = ConfigDict(extra="ignore")

    ids: list[EntityId] = Field(max_length=limits.BATCH)
    properties: list[WantedBody] = Field(max_length=limits.SPANS)


def _text(value: Value) -> str:
    if isinstance(value, Entity):
        return value.name or value.id
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e15 else str(value)
