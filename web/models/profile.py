"""What is asked and answered about one entity over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from adapters.profiles.profiler import MOST_RELATIONS, ProfileOptions
from web import limits
from web.models.answers import EvidenceBody
from web.models.base import AddressFilter, Body, DocumentId, Filter, Text, Whole
from web.models.queries import Milliseconds

EntityText = Annotated[str, StringConstraints(max_length=limits.TITLE_CHARS)]
RelationCount = Annotated[int, Field(ge=1, le=MOST_RELATIONS), Whole]


class ProfileQuery(Body):
    """Whose card is wanted: of what a name means, or of a document by its id; exactly one of them."""

    name: EntityText | None = Field(None, description="A title, another name, or the id of a document.")
    id: DocumentId | None = Field(None, description="The id of a document.")
    relations: list[Text] | None = Field(
        None,
        min_length=1,
        max_length=MOST_RELATIONS,
        description="Ask for these, by id, name or wording, and give the best value of each however unsure; by default "
        "those that such entities usually have.",
    )
    n_relations: RelationCount = Field(
        ProfileOptions.n_relations, description="How many of the usual relations are asked for."
    )
    threshold: float = Field(
        ProfileOptions.threshold, ge=0, le=1, allow_inf_nan=False, description="The least probability of a value."
    )
    where: Filter | None = Field(None, description="Take values only from documents whose fields pass this.")
    deadline_ms: Milliseconds | None = Field(
        None, description="Answer 504 after this time; the service's own deadline counts too."
    )

    def options(self) -> ProfileOptions:
        """Return what the card is to hold."""
        relations = None if self.relations is None else tuple(self.relations)
        return ProfileOptions(relations, self.n_relations, self.threshold, self.where or None)


class ProfileAddress(Body):
    """The same as parameters of an address; they are text, so numbers are read from it."""

    model_config = ConfigDict(strict=False)

    name: EntityText | None = Field(None, description="A title, another name, or the id of a document.")
    id: DocumentId | None = Field(None, description="The id of a document.")
    n_relations: int = Field(ProfileOptions.n_relations, ge=1, le=MOST_RELATIONS, description="As in the body.")
    threshold: float = Field(ProfileOptions.threshold, ge=0, le=1, allow_inf_nan=False, description="As in the body.")
    where: AddressFilter = Field("", description="A filter over the documents' fields.")

    def query(self) -> ProfileQuery:
        """Return the same as a body."""
        given: dict[str, Any] = {**vars(self), "where": self.where or None}
        return ProfileQuery(**given)


class EntityBody(Body):
    """A document seen as a thing."""

    id: str
    title: str
    url: str | None
    description: str = Field(description="Its first sentence; empty where only its name is of interest.")


class EntityNameBody(Body):
    """Another name of the entity."""

    name: str
    source: str
    prior: float = Field(description="The probability that the name means this entity.")


class FactRelationBody(Body):
    """A relation: its Wikidata id, null for a wording of one's own, and its name."""

    id: str | None
    name: str


class FactValueBody(Body):
    """One value of a relation."""

    text: str
    probability: float | None = Field(description="Null where the knowledge base has no probabilities.")
    sure: bool = Field(description="Whether it is rather right than wrong.")
    contradicts: list[str] = Field(description="Other values that cannot be right at the same time.")
    entity: EntityBody | None = Field(description="The document that the value is the name of.")
    evidence: EvidenceBody


class FactBody(Body):
    """A relation of the entity with its values, the most probable first."""

    relation: FactRelationBody
    sure: bool
    contradicted: bool = Field(description="Whether sources give values that cannot be right together.")
    values: list[FactValueBody] = Field(min_length=1)


class EdgeBody(Body):
    """What joins the entity with another."""

    entity: EntityBody
    kind: Literal["links_to", "linked_from", "answer"]
    label: str = Field(description="Of an answer the relation.")


class ProfileBody(Body):
    """An entity's card, or what its name can mean."""

    name: str
    status: Literal["found", "ambiguous", "unknown"]
    entity: EntityBody | None
    names: list[EntityNameBody]
    facts: list[FactBody] = Field(description="By how usual the relation is for its kind.")
    asked: list[str] = Field(description="The relations that were asked for.")
    related: list[EdgeBody]
    choices: list[EntityBody] = Field(
        description="What else the name can mean; of an unknown name documents with similar words."
    )
    generation: int
    timings_ms: dict[str, float]
