"""Examples that fit the open knowledge base: bundled queries whose documents it holds, else made of its own text."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbengine.corpus.sentences import sentence_spans
from kbengine.errors import UnknownDocumentError
from kbengine.inputs import END_MENTION, SEPARATOR, START_MENTION, Task
from kbengine.terminal.demonstration import demo_queries
from web.listing import stored_document
from web.page.search_form import SearchForm

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase
    from web.listing import StoredDocument

N_EXAMPLES = 6
_N_LOOKED_AT = 40
_MAX_SENTENCE_CHARS = 240
_GENERAL_RELATIONS = ("place of birth", "author", "capital", "location")


class Examples:
    """Examples per task, made anew when the knowledge base has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation = -1
        self._by_task: dict[Task, tuple[SearchForm, ...]] = {}

    def of(self, task: Task, kb: KnowledgeBase) -> tuple[SearchForm, ...]:
        """Return up to six examples of the task; none when the knowledge base is empty."""
        with self._lock:
            if kb.generation != self._generation:
                self._generation, self._by_task = kb.generation, {}
            if task not in self._by_task:
                self._by_task[task] = _bundled(task, kb) or _made(task, kb)
            return self._by_task[task]


def _bundled(task: Task, kb: KnowledgeBase) -> tuple[SearchForm, ...]:
    """Return the demo's queries of the task whose document is in this knowledge base, title and all."""
    found: list[SearchForm] = []
    for record in demo_queries():
        page = record["output"][0]["provenance"][0]
        if record["task"] == task and len(found) < N_EXAMPLES and _holds(kb, page["wikipedia_id"], page["title"]):
            found.append(_form(task, record["input"]))
    return tuple(found)


def _holds(kb: KnowledgeBase, doc_id: str, title: str) -> bool:
    try:
        return stored_document(kb, doc_id).record.title == title
    except UnknownDocumentError:
        return False


def _form(task: Task, text: str) -> SearchForm:
    """Return the state of the search page for a record's input."""
    fields: dict[str, Any] = {}
    match task:
        case "question":
            fields["q"] = text
        case "slot-filling":
            fields["subject"], _, fields["relation"] = (part.strip() for part in text.partition(SEPARATOR))
        case "entity-linking":
            fields["text"] = text
        case "dialogue":
            fields["turns"] = tuple(turn for turn in text.split("\n") if turn)
    return SearchForm(task=task, **fields)


def _made(task: Task, kb: KnowledgeBase) -> tuple[SearchForm, ...]:
    """Return examples made of titles and sentences of the first documents."""
    records = kb.reader.list_documents(limit=_N_LOOKED_AT)
    titled = [record for record in records if record.title.strip() and record.passage_count]
    if task == "question":
        return tuple(SearchForm(q=f"What is {record.title}?") for record in titled[:N_EXAMPLES])
    if task == "slot-filling":
        pairs = zip(titled[:N_EXAMPLES], _GENERAL_RELATIONS * N_EXAMPLES, strict=False)
        return tuple(SearchForm(task=task, subject=one.title, relation=relation) for one, relation in pairs)
    documents = [stored_document(kb, record.doc_id) for record in titled[: 2 * N_EXAMPLES]]
    titles = [one.title for one in titled]
    made = [_mention_example(one, titles) if task == "entity-linking" else _dialogue_example(one) for one in documents]
    return tuple(one for one in made if one is not None)[:N_EXAMPLES]


def _mention_example(document: StoredDocument, titles: Sequence[str]) -> SearchForm | None:
    """Return a sentence of the document in which a title is marked; another document's title before its own."""
    others = [title for title in titles if title != document.record.title]
    for title in (*others, document.record.title):
        for sentence in _sentences(document):
            start = sentence.find(title)
            if start >= 0:
                end = start + len(title)
                marked = f"{sentence[:start]}{START_MENTION} {title} {END_MENTION}{sentence[end:]}"
                return SearchForm(task="entity-linking", text=marked)
    return None


def _dialogue_example(document: StoredDocument) -> SearchForm | None:
    sentences = _sentences(document)
    if not sentences:
        return None
    return SearchForm(
        task="dialogue", turns=(f"Tell me about {document.record.title}.", sentences[0], "And what else?")
    )


def _sentences(document: StoredDocument) -> list[str]:
    if not document.passages:
        return []
    text = document.passages[0].text
    found = [text[span.start : span.end].strip() for span in sentence_spans(text)]
    return [" ".join(sentence.split()) for sentence in found if len(sentence) <= _MAX_SENTENCE_CHARS]
