"""The job that adds documents: files in any format that a corpus may have, added piece by piece."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.build.builder import CorpusOptions
from kbengine.build.document_encoder import chunks
from kbengine.corpus.document import SourcePosition
from kbengine.errors import CorpusError, DuplicateDocumentError
from web.jobs.job import Outcome

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase
    from web.engine import Engine
    from web.jobs.context import JobContext

PIECE_PASSAGES = 128
"""Passages of one commit: some seconds of encoding."""
LOOKED_UP = 500
"""Ids looked up at once."""
_COUNTS = ("documents", "added", "replaced")


def upload(engine: Engine, context: JobContext) -> Outcome:
    """Add the documents of the uploaded files: all files are read before the first document is added.

    After an interruption it goes on behind the last piece that was added.

    Raises:
        CorpusError: a record cannot be read; then nothing was added.
        DuplicateDocumentError: an id is there already and nothing is to be replaced; then nothing was added.
    """
    options = CorpusOptions(_files(context), context.arguments.get("format"), bool(context.arguments.get("skip_bad")))
    replace = bool(context.arguments.get("replace", True))
    try:
        cursor: dict[str, Any] = context.job.cursor or {}
        if not cursor:
            cursor = {"passages": _read_all(engine.knowledge_base, options, context, replace), "position": None}
            context.save(cursor)
        return _add_all(engine, options, context, cursor, replace)
    except CorpusError as error:
        message = error.message.replace(f"{context.input}/", "").replace("--skip-bad", "skip_bad")
        raise type(error)(message) from error


def _files(context: JobContext) -> tuple[Path, ...]:
    return tuple(sorted(path for path in context.input.iterdir() if path.is_file()))


def _read_all(kb: KnowledgeBase, options: CorpusOptions, context: JobContext, replace: bool) -> int:
    """Return how many passages there are, after a look at every record."""
    reading = options.read()
    n_passages, ids = 0, []
    for document, position in reading:
        n_passages = position.passages
        ids.append(document.doc_id)
        if len(ids) == LOOKED_UP:
            _refuse_known(kb, ids, replace)
            ids.clear()
        context.progress("bytes read", position.bytes_read, reading.report.bytes_total)
    _refuse_known(kb, ids, replace)
    return n_passages


def _refuse_known(kb: KnowledgeBase, ids: list[str], replace: bool) -> None:
    known = {} if replace else kb.reader.live_documents(ids)
    if known:
        raise DuplicateDocumentError(
            f"the knowledge base has a document {next(iter(known))!r} already, and nothing was added; give it another "
            "id, or let documents be replaced"
        )


def _add_all(
    engine: Engine, options: CorpusOptions, context: JobContext, cursor: dict[str, Any], replace: bool
) -> Outcome:
    kb, total = engine.knowledge_base, cursor["passages"]
    start = None if cursor["position"] is None else SourcePosition.from_json(cursor["position"])
    counts = {name: cursor.get(name, 0) for name in _COUNTS}
    context.progress("passages added", 0 if start is None else start.passages, total)
    reading = options.read(start)
    generation = cursor.get("generation", kb.generation)
    for documents, position in chunks(reading, most_passages=PIECE_PASSAGES):
        # Named, so that a piece that was added just before an interruption is not added twice.
        name = f"job {context.job.id} {position.file_index}:{position.record}"
        commit = context.patiently(
            lambda documents=documents, name=name: engine.writes.run(kb.add, documents, replace=replace, op_id=name)  # type: ignore[misc]
        )
        generation = commit.generation
        counts["documents"] += len(documents)
        counts["added"] += commit.documents_added
        counts["replaced"] += commit.documents_replaced
        cursor = {"passages": total, "position": position.to_json(), "generation": generation, **counts}
        context.progress("passages added", position.passages, total)
        context.save(cursor)
    report = reading.report
    left_out = {"bad_records": report.bad_records, "empty_files": report.empty_files}
    return Outcome({**counts, "passages": total, "generation": generation, **{k: n for k, n in left_out.items() if n}})
