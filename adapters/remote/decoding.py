"""What a service answers, made into what a knowledge base at hand gives, so that both are shown alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adapters.annotating.linked import Annotation, LinkCandidate
from adapters.profiles.card import Edge, EntityName, EntityRef, Fact, FactValue, Profile
from adapters.tasks.answers import Answer, Evidence, TaskAnswer
from adapters.tasks.provenance import PageProvenance
from adapters.tasks.values import Value
from kbengine.search.results import DocumentRef, PassageRef, ScoreParts
from kbengine.span import Span

if TYPE_CHECKING:
    from kbengine.inputs import Task

Record = Mapping[str, Any]


def task_answer_of(record: Record) -> TaskAnswer:
    """Return the answer that an envelope holds."""
    task: Task = record["task"]
    return TaskAnswer(
        task=task,
        status=record["status"],
        reason=record["reason"],
        answers=tuple(map(_answer, record["answers"])),
        threshold=record["threshold"],
        generation=record["generation"],
        encoder=record["model"]["fingerprint"],
        n_query_tokens=record["query_tokens"],
        truncated=record["truncated"],
        timings_ms=record["timings_ms"],
        mention=None if record["mention"] is None else Span(*record["mention"]),
        answerable=record["answerable"],
        lexical_factor=record["lexical_factor"],
        values=tuple(
            Value(each["text"], each["rank"], each["probability"], tuple(each["contradicts"]))
            for each in record["values"]
        ),
    )


def annotation_of(record: Record) -> Annotation:
    """Return one mention with its candidates."""
    return Annotation(
        Span(*record["span"]),
        record["text"],
        None if record["link"] is None else _candidate(record["link"]),
        record["reason"],
        tuple(map(_candidate, record["candidates"])),
    )


def profile_of(record: Record) -> Profile:
    """Return the card of an entity."""
    return Profile(
        name=record["name"],
        status=record["status"],
        entity=_entity(record["entity"]),
        names=tuple(EntityName(each["name"], each["source"], each["prior"]) for each in record["names"]),
        facts=tuple(
            Fact(each["relation"]["id"], each["relation"]["name"], tuple(map(_fact_value, each["values"])))
            for each in record["facts"]
        ),
        asked=tuple(record["asked"]),
        related=tuple(
            Edge(entity, each["kind"], each["label"])
            for each in record["related"]
            if (entity := _entity(each["entity"])) is not None
        ),
        choices=tuple(entity for each in record["choices"] if (entity := _entity(each)) is not None),
        generation=record["generation"],
        timings_ms=dict(record["timings_ms"]),
    )


def _answer(record: Record) -> Answer:
    places = tuple(map(_evidence, record["evidence"]))
    return Answer(record["rank"], record["text"], record["unit"], record["score"], record["probability"], places)


def _evidence(record: Record) -> Evidence:
    document, passage = record["document"], record["passage"]
    return Evidence(
        document=DocumentRef(document["id"], document["title"], document["url"], document["meta"]),
        passage=PassageRef(
            passage["id"], passage["ordinal"], passage["text"], passage["section"], passage["char_offset"]
        ),
        span=Span(*record["span"]),
        sentence=Span(*record["sentence"]),
        score=record["score"],
        parts=None if record.get("parts") is None else ScoreParts(**record["parts"]),
        provenance=PageProvenance(**record["provenance"]),
    )


def _candidate(record: Record) -> LinkCandidate:
    document = record["document"]
    return LinkCandidate(document["id"], document["title"], document["url"], record["probability"])


def _entity(record: Record | None) -> EntityRef | None:
    return None if record is None else EntityRef(record["id"], record["title"], record["url"], record["description"])


def _fact_value(record: Record) -> FactValue:
    return FactValue(
        record["text"],
        record["probability"],
        _evidence(record["evidence"]),
        tuple(record["contradicts"]),
        _entity(record["entity"]),
    )
