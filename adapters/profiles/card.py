"""What a profile is made of: the entity, its facts with their evidence, what is near it, or what its name can mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from adapters.tasks.answers import Evidence

ProfileStatus = Literal["found", "ambiguous", "unknown"]
EdgeKind = Literal["links_to", "linked_from", "answer"]


@dataclass(frozen=True)
class EntityRef:
    """A document seen as a thing, with its first sentence.

    Attributes:
        doc_id: The document's id.
        title: Its title.
        url: Where it is from, None where that is not known.
        description: The first sentence of its first passage; empty without text.
    """

    doc_id: str
    title: str
    url: str | None = None
    description: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the entity as plain JSON values."""
        return {"id": self.doc_id, "title": self.title, "url": self.url, "description": self.description}


@dataclass(frozen=True)
class EntityName:
    """Another name of the entity: where it is from, and how probably it means this entity."""

    name: str
    source: str
    prior: float

    def to_json(self) -> dict[str, Any]:
        """Return the name as plain JSON values."""
        return {"name": self.name, "source": self.source, "prior": self.prior}


@dataclass(frozen=True)
class FactValue:
    """One value of a relation.

    Attributes:
        text: As the knowledge base writes it.
        probability: That the entity has this value; None where the knowledge base has no probabilities.
        evidence: The place that speaks for it most.
        contradicts: Other values of the fact that cannot be right at the same time.
        entity: The document that the value is the name of, None where it is none's or several documents' name.
    """

    text: str
    probability: float | None
    evidence: Evidence
    contradicts: tuple[str, ...] = ()
    entity: EntityRef | None = None

    @property
    def is_sure(self) -> bool:
        """Tell whether the value is rather right than wrong."""
        return self.probability is not None and self.probability >= 0.5

    def to_json(self) -> dict[str, Any]:
        """Return the value as plain JSON values."""
        return {
            "text": self.text,
            "probability": self.probability,
            "sure": self.is_sure,
            "contradicts": list(self.contradicts),
            "entity": None if self.entity is None else self.entity.to_json(),
            "evidence": self.evidence.to_json(),
        }


@dataclass(frozen=True)
class Fact:
    """A relation of the entity and its values, the most probable first (never empty)."""

    relation_id: str | None
    relation: str
    values: tuple[FactValue, ...]

    @property
    def is_sure(self) -> bool:
        """Tell whether the best value is rather right than wrong."""
        return self.values[0].is_sure

    @property
    def is_contradicted(self) -> bool:
        """Tell whether sources give values that cannot be right together."""
        return bool(self.values[0].contradicts)

    def to_json(self) -> dict[str, Any]:
        """Return the fact as plain JSON values."""
        return {
            "relation": {"id": self.relation_id, "name": self.relation},
            "sure": self.is_sure,
            "contradicted": self.is_contradicted,
            "values": [each.to_json() for each in self.values],
        }


@dataclass(frozen=True)
class Edge:
    """What joins the entity with another: a link of its document, one to it, or an answer, by its relation."""

    entity: EntityRef
    kind: EdgeKind
    label: str

    def to_json(self) -> dict[str, Any]:
        """Return the edge as plain JSON values."""
        return {"entity": self.entity.to_json(), "kind": self.kind, "label": self.label}


@dataclass(frozen=True)
class Profile:
    """An entity's card, or what the name asked for can mean.

    Attributes:
        name: As it was asked for.
        status: `ambiguous` where several documents are called so and none much rather than the others; `unknown` where
            none is.
        entity: The entity; None unless it was found.
        names: Its other names, the most used first.
        facts: What is known about it, by how usual the relation is for its kind.
        asked: The relations that were asked for, each its id, or its name where it has none.
        related: Other entities that links or answers lead to.
        choices: What else the name can mean; of an unknown name documents with similar words.
        generation: Of the knowledge base.
    """

    name: str
    status: ProfileStatus
    entity: EntityRef | None = None
    names: tuple[EntityName, ...] = ()
    facts: tuple[Fact, ...] = ()
    asked: tuple[str, ...] = ()
    related: tuple[Edge, ...] = ()
    choices: tuple[EntityRef, ...] = ()
    generation: int = 0
    timings_ms: dict[str, float] = field(default_factory=dict, compare=False)

    def fact(self, relation: str) -> Fact | None:
        """Return what is known of a relation, by its id or name; None where nothing is."""
        return next((each for each in self.facts if relation in (each.relation_id, each.relation)), None)

    def to_json(self) -> dict[str, Any]:
        """Return the card as plain JSON values, the same for command line and service."""
        return {
            "name": self.name,
            "status": self.status,
            "entity": None if self.entity is None else self.entity.to_json(),
            "names": [each.to_json() for each in self.names],
            "facts": [each.to_json() for each in self.facts],
            "asked": list(self.asked),
            "related": [each.to_json() for each in self.related],
            "choices": [each.to_json() for each in self.choices],
            "generation": self.generation,
            "timings_ms": {name: round(value, 3) for name, value in self.timings_ms.items()},
        }
