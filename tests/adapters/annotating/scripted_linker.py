"""A knowledge base of names with a linker that says what it is told: what annotating needs, without an encoder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from adapters.tasks.answerer import AnswerOptions
from adapters.tasks.answers import Answer, Evidence, TaskAnswer
from adapters.tasks.provenance import PageProvenance
from kbengine.inputs import Mention
from kbengine.search.results import DocumentRef, PassageRef, ScoreParts
from kbengine.span import Span
from storage.terms import name_term, names_of_title, terms_of

NAME_WEIGHT = 40.0


class NamesOf:
    """Known names without a knowledge base."""

    def __init__(self, *titles: str) -> None:
        self._terms = {name_term(name) for title in titles for name in names_of_title(title)}

    def titled(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if name_term(name) in self._terms and name_term(name) != name_term("")}

    def aliased(self, names: Iterable[str]) -> set[str]:
        return set()


class ScriptedLinker:
    """Documents by title with their one passage, and what the linker thinks of each for a name."""

    def __init__(self, documents: Mapping[str, str], thinks: Mapping[str, Mapping[str, float]]) -> None:
        self.documents = documents
        self.thinks = thinks
        self.links: dict[str, set[str]] = {}
        self.asked: list[str] = []

    def _having(self, term: str) -> list[int]:
        return [
            i
            for i, (title, text) in enumerate(self.documents.items())
            if term in {name_term(name) for name in names_of_title(title)} or term in terms_of(f"{title} {text}")
        ]

    def titled(self, names: Sequence[str], *, limit: int) -> list[list[int]]:
        return [self._having(name_term(name))[:limit] for name in names]

    def n_passages_with(self, term: str) -> int:
        return len(self._having(term))

    def passages_with(self, term: str, places: Sequence[int]) -> list[int]:
        return [self._having(term)[place] for place in places]

    def passage_texts(self, ids: Sequence[int]) -> dict[int, str]:
        return {i: list(self.documents.values())[i] for i in ids}

    def alias_matches(self, names: Sequence[str], *, limit: int = 32) -> list[list[Any]]:
        return [[] for _ in names]

    def list_aliases(self, **_: Any) -> list[Any]:
        return []

    def live_documents(self, doc_ids: Sequence[str]) -> dict[str, Any]:
        return {each: SimpleNamespace(document_id=each) for each in doc_ids}

    def document_names(self, document_id: str) -> Any:
        return SimpleNamespace(links=[SimpleNamespace(target=each) for each in self.links.get(document_id, ())])

    def ask(self, requests: Sequence[Any], options: AnswerOptions) -> list[TaskAnswer]:
        return [self._answer(each) for each in requests]

    def _answer(self, mention: Mention) -> TaskAnswer:
        self.asked.append(mention.name)
        thought = sorted(self.thinks.get(mention.name, {}).items(), key=lambda each: -each[1])
        answers = tuple(self._of(rank, *each) for rank, each in enumerate(thought, start=1))
        answerable = max((p for _, p in thought), default=0.0)
        return TaskAnswer("entity-linking", "answered", None, answers, None, 1, "f", 8, False, answerable=answerable)

    def _of(self, rank: int, title: str, probability: float) -> Answer:
        text = self.documents[title]
        parts = ScoreParts(0.0, 0.0, 0.0, 0.0, name=NAME_WEIGHT if rank == 1 else 0.0)
        evidence = Evidence(
            DocumentRef(title, title, None),
            PassageRef(rank, 0, text),
            Span(0, 1),
            Span(0, len(text)),
            10 * probability,
            parts,
            PageProvenance(title),
        )
        return Answer(rank, title, "document", 10 * probability, probability, (evidence,))
