"""A knowledge base that says what it is told: what filling needs, without an encoder."""

from __future__ import annotations

from types import SimpleNamespace

from adapters.filling.filler import Filler, FillOptions
from adapters.tasks.answers import Answer, Evidence, TaskAnswer
from adapters.tasks.provenance import PageProvenance
from adapters.tasks.values import Value
from kbengine.errors import QueryTooLongError
from kbengine.inputs import Mention, Question, Slot, task_of
from kbengine.search.results import DocumentRef, PassageRef
from kbengine.span import Span

TITLES = {"marie": "Marie Curie", "ada": "Ada Lovelace"}
KNOWN = {
    Slot("Marie Curie", "P19"): ["Warsaw"],
    Slot("Marie Curie", "spouse"): ["Pierre Curie", "Jacques Curie"],
    Slot("Ada Lovelace", "P19"): ["London"],
    Question("Who?"): ["Nobody"],
}


class Scripted:
    """Answers from `KNOWN`, links by title; keeps what it was asked; breaks when told to."""

    def __init__(self):
        self.asked, self.breaks_after = [], None

    def ask(self, requests, options):
        if self.breaks_after is not None and len(self.asked) >= self.breaks_after:
            raise KeyboardInterrupt
        self.asked += requests
        return [self._outcome(each) for each in requests]

    def filler(self, options: FillOptions) -> Filler:
        return Filler(options, self.ask, self)

    def live_documents(self, doc_ids):
        return {each: SimpleNamespace(title=TITLES[each]) for each in doc_ids if each in TITLES}

    def _outcome(self, asked):
        if isinstance(asked, Mention):
            found = [(key, title) for key, title in TITLES.items() if title.split()[0] in asked.text]
            return answered(asked, [title for _, title in found], doc_id=found[0][0] if found else "")
        if isinstance(asked, Slot) and asked.relation == "too long":
            return QueryTooLongError("it has 99 tokens")
        return answered(asked, KNOWN.get(asked, []))


def answered(asked, texts, doc_id="marie"):
    """The answer of these texts; without any there is none."""
    answers = tuple(
        Answer(
            rank,
            text,
            "phrase",
            1.0,
            0.9 / rank,
            (
                Evidence(
                    DocumentRef(doc_id, text, None),
                    PassageRef(1, 1, f"She said: {text}. Then nothing."),
                    Span(10, 11),
                    Span(0, 11 + len(text)),
                    1.0,
                    None,
                    PageProvenance(text),
                ),
            ),
        )
        for rank, text in enumerate(texts, start=1)
    )
    values = tuple(Value(each.text, each.rank, each.probability) for each in answers)
    reason = None if answers else "unanswerable"
    status = "answered" if answers else "no_answer"
    return TaskAnswer(task_of(asked), status, reason, answers, None, 1, "f", 3, False, values=values)
