"""Mentions of a text linked through the service's queue: those that are given, or all that are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from adapters.annotating.annotator import AnnotateOptions
from adapters.tasks.answerer import AnswerOptions
from kbengine.inputs import END_MENTION, START_MENTION, Mention
from kbengine.span import Span
from web.annotating import annotator_of
from web.engine import all_of

if TYPE_CHECKING:
    from adapters.tasks.answers import TaskAnswer
    from storage.records import DocumentRecord
    from web.deadline import Deadline
    from web.service import Service

CONTEXT_CHARS = 1500
"""Characters on either side of a mention that the linker is given."""


@dataclass(frozen=True)
class Linked:
    """A mention with the document that it means, None for none, and how probable that is."""

    span: Span
    document: DocumentRecord | None
    probability: float | None


def found_links(service: Service, text: str, deadline: Deadline, threshold: float = 0.5) -> list[Linked]:
    """Return the mentions that have a link, in order."""
    options = AnnotateOptions(threshold=threshold, candidates=1, unlinked=False)
    found = list(annotator_of(service, lambda: deadline).annotate(text, options))
    ids = [each.link.doc_id for each in found if each.link is not None]
    documents = service.engine.knowledge_base.reader.live_documents(ids)
    return [
        Linked(each.span, documents[each.link.doc_id], each.link.probability)
        for each in found
        if each.link is not None and each.link.doc_id in documents
    ]


def given_links(service: Service, text: str, spans: Sequence[Span], deadline: Deadline) -> list[Linked]:
    """Return what each given mention means, in order.

    Raises:
        TaskInputError: a span is not within the text.
    """
    options = AnswerOptions(k=1)
    asked = [(_mention(text, span), options) for span in spans]
    answers = cast("list[TaskAnswer]", all_of(service.engine.ask_each(asked, deadline)))
    best = [answer.best for answer in answers]
    ids = [each.document.doc_id for each in best if each is not None]
    documents = service.engine.knowledge_base.reader.live_documents(ids)
    return [
        Linked(
            span,
            None if each is None else documents.get(each.document.doc_id),
            None if each is None else each.probability,
        )
        for span, each in zip(spans, best, strict=True)
    ]


def _mention(text: str, span: Span) -> Mention:
    """Return the mention with what stands around it; a text that has marks of ours loses them."""
    left = _unmarked(text[max(0, span.start - CONTEXT_CHARS) : span.start])
    right = _unmarked(text[span.end : span.end + CONTEXT_CHARS])
    return Mention.from_parts(left, _unmarked(text[span.start : span.end]), right)


def _unmarked(text: str) -> str:
    return text.replace(START_MENTION, " ").replace(END_MENTION, " ")
