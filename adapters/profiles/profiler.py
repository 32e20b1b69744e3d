"""A name goes in, the entity's card comes out: the one path of command line, Python, HTTP and page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.profiles.card import Edge, EntityName, EntityRef, Fact, FactValue, Profile
from adapters.profiles.naming import entities, meaning_of, similar_documents
from adapters.profiles.usual_relations import usual_relations
from adapters.profiles.value_model import ValueModel, features_of, value_model
from adapters.tasks.answerer import AnswerOptions
from adapters.tasks.values import values_of
from adapters.tasks.wording import has_one_value, relations
from kbengine.corpus.normalise import norm
from kbengine.errors import InvalidOptionError, UnknownDocumentError
from kbengine.inputs import Slot

if TYPE_CHECKING:
    from adapters.tasks.answers import Answer, TaskAnswer
    from kbengine.inputs import TaskInput
    from storage.reader import KBReader
    from storage.records import DocumentRecord

Ask = Callable[[Sequence["TaskInput"], AnswerOptions], Sequence["TaskAnswer"]]
"""What answers slots: an `Answerer`'s method, or a service's queue."""

RELATIONS = 16
"""Relations that are asked for unless it is said: of those that development entities have, four of five."""
MOST_RELATIONS = 64
ANSWERS = 5
"""Answers that are looked at of each relation."""
LEAST_PROBABILITY = 0.2
"""What is less probable is not shown, unless its relation was asked for by name."""
NAMES = 50
LINKS = 8
"""Documents shown that links lead to, and as many that link here."""


@dataclass(frozen=True)
class ProfileOptions:
    """What a card is to hold.

    Attributes:
        relations: Ask for these, by id, name or own wording, and show the best value of each however unsure; None asks
            for those that such entities usually have.
        n_relations: How many of the usual ones, 1 to 64.
        threshold: The least probability, 0 to 1, of a value that is shown.
        where: A filter over the fields of the documents that may answer.
    """

    relations: tuple[str, ...] | None = None
    n_relations: int = RELATIONS
    threshold: float = LEAST_PROBABILITY
    where: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.n_relations <= MOST_RELATIONS:
            raise InvalidOptionError(f"the number of relations is {self.n_relations}, wanted 1 to {MOST_RELATIONS}")
        if not 0 <= self.threshold <= 1:
            raise InvalidOptionError(f"the threshold is {self.threshold}, wanted a probability from 0 to 1")
        if self.relations is not None and not 1 <= len(self.relations) <= MOST_RELATIONS:
            raise InvalidOptionError(f"{len(self.relations)} relations are given, wanted 1 to {MOST_RELATIONS}")


@dataclass(frozen=True)
class Asked:
    """One relation that was asked for, and what came back.

    Attributes:
        slot: What was asked.
        usual: Log odds that such an entity has the relation; of one that no table knows those of the most usual one.
        behind: How much less these are than those of its most usual relation.
        answer: What came back.
    """

    slot: Slot
    usual: float
    behind: float
    answer: TaskAnswer


class Profiler:
    """Makes the cards of entities of one knowledge base; usable from several threads at once."""

    def __init__(self, reader: KBReader, ask: Ask, *, model: ValueModel | None = None) -> None:
        """Make cards of what `ask` says of slots.

        Args:
            reader: of names, links and texts.
            ask: answers slots.
            model: how probable values are; by default the one that ships.
        """
        self._reader = reader
        self._ask = ask
        self._model = model or value_model()

    def profile(self, name: str, options: ProfileOptions | None = None) -> Profile:
        """Return the card of what the name means, or what it can mean.

        Raises:
            InvalidOptionError: the name is blank.
            UnknownRelationError: a relation is a Wikidata id that the table lacks.
        """
        name = " ".join(name.split())
        if not name:
            raise InvalidOptionError("the name is blank, wanted a title, another name or the id of a document")
        meaning = meaning_of(self._reader, name)
        if meaning.document is not None:
            return self._card(name, meaning.document, meaning.others, options or ProfileOptions())
        choices = meaning.others if meaning.is_known else similar_documents(self._reader, name)
        return Profile(
            name,
            "ambiguous" if meaning.is_known else "unknown",
            choices=tuple(entities(self._reader, choices)),
            generation=self._reader.generation,
        )

    def profile_of(self, doc_id: str, options: ProfileOptions | None = None) -> Profile:
        """Return the card of the document with this id.

        Raises:
            UnknownDocumentError: there is none.
            UnknownRelationError: a relation is a Wikidata id that the table lacks.
        """
        document = self._reader.live_documents([doc_id]).get(doc_id)
        if document is None:
            raise UnknownDocumentError(f"no document {doc_id!r}; the listing of documents has the ids")
        return self._card(document.title or doc_id, document, (), options or ProfileOptions())

    def ask_about(self, document: DocumentRecord, lead: str, options: ProfileOptions) -> list[Asked]:
        """Return what the knowledge base says of the relations in question, in one batch, the most usual first.

        Args:
            document: the entity's.
            lead: the text that says what it is.
            options: which relations.
        """
        table = usual_relations()
        odds = dict(table.most_usual(lead, len(table.relations)))
        most = max(odds.values())
        if options.relations is None:
            wanted = list(odds.items())[: options.n_relations]
        else:
            wanted = [(each, odds.get(_id_of(each), most)) for each in dict.fromkeys(options.relations)]
        slots = [Slot(document.title or document.doc_id, relation) for relation, _ in wanted]
        answers = self._ask(slots, AnswerOptions(k=ANSWERS, threshold=None, where=options.where))
        return [
            Asked(slot, usual, most - usual, each)
            for slot, (_, usual), each in zip(slots, wanted, answers, strict=True)
        ]

    def weigh(self, document: DocumentRecord, asked: Asked) -> list[tuple[Answer, tuple[float, ...] | None]]:
        """Return the answers to one relation with what speaks for each; None where there are no probabilities.

        The entity's own names are no answers.
        """
        own = {norm(each) for each in (document.title, *self._reader.aliases_of(document.document_id, limit=NAMES))}
        return [
            (
                each,
                None
                if each.probability is None
                else features_of(
                    each.probability,
                    asked.answer.answerable,
                    asked.usual,
                    behind=asked.behind,
                    is_own=each.document.doc_id == document.doc_id,
                    is_first=each.rank == 1,
                ),
            )
            for each in asked.answer.answers
            if norm(each.text) not in own
        ]

    def _card(
        self, name: str, document: DocumentRecord, others: Sequence[DocumentRecord], options: ProfileOptions
    ) -> Profile:
        began = time.perf_counter()
        lead = self._reader.first_passages([document.doc_id]).get(document.doc_id, "")
        asked = self.ask_about(document, lead, options)
        answered = time.perf_counter()
        facts = tuple(fact for each in asked if (fact := self._fact(document, each, options)) is not None)
        return Profile(
            name,
            "found",
            entity=entities(self._reader, [document])[0],
            names=self._names(document),
            facts=facts,
            asked=tuple(_id_of(each.slot.relation) for each in asked),
            related=tuple(self._related(document, facts)),
            choices=tuple(entities(self._reader, others)),
            generation=asked[0].answer.generation,
            timings_ms={"answers": (answered - began) * 1e3, "total": (time.perf_counter() - began) * 1e3},
        )

    def _fact(self, document: DocumentRecord, asked: Asked, options: ProfileOptions) -> Fact | None:
        weighed = self.weigh(document, asked)
        # Whoever names a relation asks a slot, and gets what the slot says at every other door.
        is_slot = options.relations is not None
        probable = sorted(
            (
                (each, each.probability if is_slot or features is None else self._model.probability(features))
                for each, features in weighed
            ),
            key=lambda pair: -(pair[1] or 0.0),
        )
        if not probable:
            return None
        known = relations().find(asked.slot.relation)
        kept = values_of([(each.text, p) for each, p in probable], has_one=has_one_value(asked.slot))
        shown = [
            FactValue(
                probable[value.rank - 1][0].text,
                value.probability,
                probable[value.rank - 1][0].evidence[0],
                value.contradicts,
                self._entity_called(value.text, document),
            )
            for value in kept
            if value.probability >= options.threshold or (options.relations is not None and value is kept[0])
        ]
        if not kept:  # without probabilities nothing says which of several are right, or whether any is
            first = probable[0][0]
            shown = [FactValue(first.text, None, first.evidence[0], (), self._entity_called(first.text, document))]
        name = asked.slot.relation if known is None else known.name
        return Fact(None if known is None else known.id, name, tuple(shown)) if shown else None

    def _entity_called(self, text: str, document: DocumentRecord) -> EntityRef | None:
        """Return the one document that a value is the name of, the entity's own aside."""
        found = meaning_of(self._reader, text).document
        if found is None or found.doc_id == document.doc_id:
            return None
        return EntityRef(found.doc_id, found.title, found.url)

    def _names(self, document: DocumentRecord) -> tuple[EntityName, ...]:
        records = self._reader.list_aliases(doc_id=document.doc_id, limit=NAMES)
        best: dict[str, EntityName] = {}
        for record in sorted(records, key=lambda each: -each.uses):
            if record.source != "title" and record.alias != document.title:
                best.setdefault(record.alias, EntityName(record.alias, record.source, record.prior))
        return tuple(best.values())

    def _related(self, document: DocumentRecord, facts: Sequence[Fact]) -> list[Edge]:
        """Return what answers and links lead to, each document once: as an answer before as a link."""
        edges: dict[str, Edge] = {}
        for fact in facts:
            for value in fact.values:
                if value.entity is not None:
                    edges.setdefault(value.entity.doc_id, Edge(value.entity, "answer", fact.relation))
        links = sorted(self._reader.document_names(document.document_id).links, key=lambda each: -each.count)
        by_name = self._reader.ids_of(list(dict.fromkeys(link.target for link in links)))
        targets = [ids[0] for link in links if len(ids := by_name.get(link.target, [])) == 1]
        wanted = [each for each in dict.fromkeys(targets) if each != document.doc_id][:LINKS]
        found = self._reader.live_documents(wanted)
        for doc_id in wanted:
            each = found[doc_id]
            edges.setdefault(doc_id, Edge(EntityRef(doc_id, each.title, each.url), "links_to", "links to"))
        for each, _ in self._reader.linking_documents(document.doc_id, document.title, limit=LINKS):
            entity = EntityRef(each.doc_id, each.title, each.url)
            edges.setdefault(each.doc_id, Edge(entity, "linked_from", "linked from"))
        return list(edges.values())


def _id_of(relation: str) -> str:
    """Return the id of a relation, or the relation as it is where it has none."""
    known = relations().find(relation)
    return relation if known is None else known.id
