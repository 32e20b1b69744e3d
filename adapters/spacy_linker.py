"""A component for spaCy that links entities to the documents of a knowledge base (extra `spacy`).

spaCy reads the types of the factory's arguments when a pipeline is made: annotations are no texts in this file.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.util import minibatch

from adapters.annotating.annotator import AnnotateOptions
from adapters.knowledge_base import KnowledgeBase
from adapters.tasks.answers import TaskAnswer
from kbengine.errors import InvalidOptionError, StateError
from kbengine.inputs import Mention

NIL = "NIL"
"""The id of an entity that has no link, as spaCy's own linker has it."""
FOUND_LABEL = "NAME"
"""The label of entities that are found here."""
CONTEXT_CHARS = 1500
"""Characters on either side of an entity that the linker is given."""
MENTIONS_AT_ONCE = 64
_DEFAULTS = {"kb": "", "encoder": None, "threshold": None, "where": None, "find": False}


class Link(NamedTuple):
    """A document that an entity means; without a probability where the knowledge base knows none."""

    doc_id: str
    title: str
    url: str | None
    probability: float | None


class KnowledgeBaseLinker(Pipe):  # type: ignore[misc]  # of an extra, which mypy does not follow
    """Sets `kb_id_` of entities to the ids of the documents that they mean, or to `NIL`.

        nlp.add_pipe("kbengine_linker", config={"kb": "my-kb"})

    `ent._.kb_link` has the document's `title`, `url` and the `probability`; None for `NIL`. The knowledge base is
    opened with the first text. What is written with the pipeline is its path, not its content.

    Args:
        name: of the component.
        kb: the directory of the knowledge base.
        encoder: a tuned encoder's name; by default the task's own.
        threshold: the probability, 0 to 1, that a link has to reach; None takes that of the task, which is stored with
            the knowledge base or none.
        where: a filter over the fields of documents.
        find: whether texts that have no entities get those that `KnowledgeBase.annotate` finds.
    """

    def __init__(
        self,
        name: str,
        *,
        kb: str,
        encoder: str | None = None,
        threshold: float | None = None,
        where: str | None = None,
        find: bool = False,
    ) -> None:
        if not kb:
            raise InvalidOptionError(
                "kbengine_linker has no knowledge base; give its directory: "
                "nlp.add_pipe('kbengine_linker', config={'kb': 'my-kb'})"
            )
        self.name = name
        self.kb = kb
        self.encoder = encoder
        self.threshold = threshold
        self.where = where
        self.find = find
        self._opened: KnowledgeBase | None = None
        self._opened_by = 0
        Span.set_extension("kb_link", default=None, force=True)

    @property
    def knowledge_base(self) -> KnowledgeBase:
        """Return the knowledge base, open.

        Raises:
            StateError: another process opened it, from which this one was forked: numeric libraries hang there.
        """
        if self._opened is None:
            self._opened, self._opened_by = KnowledgeBase.open(self.kb, encoder=self.encoder), os.getpid()
        elif self._opened_by != os.getpid():
            raise StateError(
                "kbengine_linker was used before the process was forked; call nlp.pipe(…, n_process=…) before any text "
                "is linked, or use one process"
            )
        return self._opened

    def close(self) -> None:
        """Give the files of the knowledge base back; the next text opens it again."""
        if self._opened is not None and self._opened_by == os.getpid():
            self._opened.close()
        self._opened = None

    def __call__(self, doc: Doc) -> Doc:
        """Return the text with its entities linked."""
        self._link([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 64) -> Iterator[Doc]:
        """Yield the texts with their entities linked, in order; the entities of a batch are asked together."""
        for docs in minibatch(stream, batch_size):
            try:
                self._link(docs)
            except Exception as error:  # what becomes of it the pipeline's own handler decides; by default it raises
                self.get_error_handler()(self.name, self, docs, error)
            else:
                yield from docs

    def _link(self, docs: Sequence[Doc]) -> None:
        if self.find:
            for doc in docs:
                if not doc.ents:
                    self._find(doc)
        entities = [(doc, ent) for doc in docs for ent in doc.ents if not ent.kb_id]
        answers: list[TaskAnswer] = []
        for start in range(0, len(entities), MENTIONS_AT_ONCE):
            asked = [_mention(doc, ent) for doc, ent in entities[start : start + MENTIONS_AT_ONCE]]
            answers += self.knowledge_base.ask(asked, k=1, threshold=self.threshold, where=self.where, truncate=True)
        links: dict[int, list[tuple[Span, Link | None]]] = {}
        for (doc, ent), answer in zip(entities, answers, strict=True):
            links.setdefault(id(doc), []).append((ent, _link_of(answer)))
        for doc in docs:
            linked = {(ent.start, ent.end): link for ent, link in links.get(id(doc), [])}
            if linked:
                _set(doc, [(ent, linked[ent.start, ent.end]) for ent in doc.ents if (ent.start, ent.end) in linked])

    def _find(self, doc: Doc) -> None:
        """Set the entities of a text to those that annotating finds, with their links."""
        threshold = AnnotateOptions.threshold if self.threshold is None else self.threshold
        found = self.knowledge_base.annotate(doc.text, threshold=threshold, where=self.where)
        spans: list[tuple[Span, Link | None]] = []
        end = 0
        for each in found.annotations:
            span = doc.char_span(each.span.start, each.span.end, label=FOUND_LABEL, alignment_mode="expand")
            if span is not None and span.start >= end:
                best = each.link
                link = None if best is None else Link(best.doc_id, best.title, best.url, best.probability)
                spans.append((span, link))
                end = span.end
        _set(doc, spans)


def make_linker(
    nlp: Language,  # noqa: ARG001  (spaCy names it)
    name: str,
    kb: str,
    encoder: str | None,
    threshold: float | None,
    where: str | None,
    find: bool,
) -> KnowledgeBaseLinker:
    """Return the component, as spaCy asks for it by its name `kbengine_linker`."""
    return KnowledgeBaseLinker(name, kb=kb, encoder=encoder, threshold=threshold, where=where, find=find)


Language.factory("kbengine_linker", default_config=_DEFAULTS, assigns=["doc.ents", "token.ent_kb_id"], func=make_linker)


def _mention(doc: Doc, ent: Span) -> Mention:
    """Return the entity with the text around it."""
    begin = max(0, ent.start_char - CONTEXT_CHARS)
    text = doc.text[begin : ent.end_char + CONTEXT_CHARS]
    return Mention(text, (ent.start_char - begin, ent.end_char - begin))


def _link_of(answer: TaskAnswer) -> Link | None:
    best = answer.best
    if best is None:
        return None
    return Link(best.document.doc_id, best.document.title, best.document.url, best.probability)


def _set(doc: Doc, links: Sequence[tuple[Span, Link | None]]) -> None:
    """Give entities their ids; the other entities of the text stay what they are."""
    new = {
        (ent.start, ent.end): Span(doc, ent.start, ent.end, label=ent.label, kb_id=link.doc_id if link else NIL)
        for ent, link in links
    }
    others = [ent for ent in doc.ents if (ent.start, ent.end) not in new]
    doc.ents = tuple(sorted(itertools.chain(others, new.values()), key=lambda ent: ent.start))
    for ent, link in links:
        facts = None if link is None else {"title": link.title, "url": link.url, "probability": link.probability}
        doc[ent.start : ent.end]._.kb_link = facts
