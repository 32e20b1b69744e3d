"""The job that annotates many texts: JSON lines in, JSON lines with the mentions of each out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import ValidationError

from adapters.annotating.annotator import AnnotateOptions, annotator_for
from adapters.annotating.linked import AnnotatedText
from kbengine.errors import CorpusError
from web.guards import LINES_TYPES
from web.jobs.job import Outcome, ResultFile
from web.models.annotate import TextToAnnotate

if TYPE_CHECKING:
    from adapters.tasks.answerer import AnswerOptions
    from adapters.tasks.answers import TaskAnswer
    from kbengine.inputs import TaskInput
    from web.engine import Engine
    from web.jobs.context import JobContext


def annotate(engine: Engine, context: JobContext) -> Outcome:
    """Annotate each text of the uploaded lines; a line of the result for each, in order.

    After an interruption it goes on behind the last text that was written.

    Raises:
        CorpusError: a line is no text to annotate; then none was annotated.
    """

    def ask(requests: Sequence[TaskInput], options: AnswerOptions) -> list[TaskAnswer]:
        return context.patiently(partial(engine.ask, requests, options))

    options = AnnotateOptions(**context.arguments)
    source = next(iter(context.input.iterdir()))
    n_texts = n_chars = 0
    for place, asked in _texts(source):
        n_texts, n_chars = n_texts + 1, n_chars + len(asked.text)
        context.progress("bytes read", place, source.stat().st_size)
    if not n_texts:
        raise CorpusError('there is no text; send a JSON object a line, such as {"id": "a", "text": "…"}')
    annotator = annotator_for(engine.answerer, engine.knowledge_base, ask)
    with context.result.open("a+b") as file:
        n_done, n_mentions, n_links = _written(file)
        chars_done = 0
        for n, (_, asked) in enumerate(_texts(source), start=1):
            if n > n_done:
                look = partial(_look, context, chars_done, n_chars)
                look(0)
                found = tuple(annotator.annotate(asked.text, options, progress=look))
                record = {"id": asked.id, **AnnotatedText(asked.text, found).to_json()}
                file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
                file.flush()
                n_mentions += len(found)
                n_links += sum(each.link is not None for each in found)
            chars_done += len(asked.text)
        os.fsync(file.fileno())
    return Outcome(
        {"texts": n_texts, "mentions": n_mentions, "links": n_links}, ResultFile("annotations.jsonl", LINES_TYPES[0])
    )


def _look(context: JobContext, before: int, total: int, done: int, _of: int = 0) -> None:
    context.progress("characters annotated", before + done, total)


def _texts(path: Path) -> Iterator[tuple[int, TextToAnnotate]]:
    """Yield each text with the place behind it."""
    place = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            place += len(line)
            if not line.strip():
                continue
            try:
                yield place, TextToAnnotate.model_validate_json(line)
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False, include_input=False)[0]
                where = "/".join(map(str, first["loc"]))
                wanted = 'wanted an object such as {"id": "a", "text": "…"}'
                raise CorpusError(f"line {number}: {where + ': ' if where else ''}{first['msg']}; {wanted}") from None


def _written(file: IO[bytes]) -> tuple[int, int, int]:
    """Return how many texts, mentions and links were written before; a line that was cut off is removed."""
    file.seek(0)
    n = n_mentions = n_links = end = 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        record: dict[str, Any] = json.loads(line)
        n += 1
        n_mentions += len(record["annotations"])
        n_links += sum(each["link"] is not None for each in record["annotations"])
        end += len(line)
    file.truncate(end)
    file.seek(end)
    return n, n_mentions, n_links
