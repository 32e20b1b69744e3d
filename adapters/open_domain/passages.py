"""Questions with the passages found for them, and the files in which readers of passages take them: FiD, DPR, KILT."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from adapters.errors import RecordError
from adapters.kilt.lines import open_text
from adapters.open_domain.matching import AnswerMatcher
from adapters.open_domain.questions import OpenQuestion, OpenQuestions
from adapters.open_domain.retrieving import BATCH, RetrievingOptions, retrieve_passages
from adapters.tasks.provenance import PageProvenance
from kbengine.progress import NoProgress, ProgressSink

if TYPE_CHECKING:
    from adapters.tasks.answerer import Answerer
    from kbengine.search.results import Hit

PassageFormat = Literal["fid", "dpr", "kilt"]
PASSAGE_FORMATS: tuple[PassageFormat, ...] = get_args(PassageFormat)

PHRASE_MARKS = ("<p_start> ", " <p_end>")
"""What DensePhrases puts around the phrase by which a passage was found."""


@dataclass(frozen=True)
class FoundPassages:
    """A question, its answers and the passages found for it, as files of DPR and FiD have them."""

    id: str
    question: str
    answers: tuple[str, ...]
    passages: tuple[Mapping[str, Any], ...]

    def texts(self) -> list[str]:
        """Return the passages' texts, best first."""
        return [str(passage.get("text", "")) for passage in self.passages]


def found_passages(question: OpenQuestion, hits: Sequence[Hit], *, mark_phrases: bool = False) -> FoundPassages:
    """Return the passages of a question as FiD reads them; with `mark_phrases` the phrase found is marked in each."""
    matcher = AnswerMatcher(question.answers, is_pattern=question.is_pattern)
    passages = tuple(
        {
            "id": f"{hit.document.doc_id}:{hit.passage.ordinal}:{hit.passage.char_offset}",
            "title": hit.document.title,
            "text": _marked(hit) if mark_phrases else hit.passage.text,
            "score": round(hit.score, 6),
            "has_answer": matcher.is_in(hit.passage.text),
        }
        for hit in hits
    )
    return FoundPassages(question.id, question.text, question.answers, passages)


def passage_record(found: FoundPassages, form: PassageFormat, hits: Sequence[Hit]) -> dict[str, Any]:
    """Return what a file of the form holds for a question.

    FiD's has `target`, what its reader learns to write: the first answer. DPR's has scores as texts. KILT's is a
    record whose provenance names page, paragraph and text, which `kbengine score --retrieval` takes.
    """
    if form == "kilt":
        pages = [PageProvenance.of_hit(hit, None).to_json() for hit in hits]
        texts = zip(pages, found.passages, strict=True)
        provenance = [{**page, "text": passage["text"], "score": passage["score"]} for page, passage in texts]
        return {"id": found.id, "input": found.question, "output": [{"provenance": provenance}]}
    record: dict[str, Any] = {"question": found.question, "answers": list(found.answers), "ctxs": list(found.passages)}
    if form == "dpr":
        return {**record, "ctxs": [{**each, "score": str(each["score"])} for each in found.passages]}
    return {"id": found.id, "target": found.answers[0], **record}


def export_passages(
    answerer: Answerer,
    asked: OpenQuestions,
    form: PassageFormat,
    *,
    options: RetrievingOptions | None = None,
    mark_phrases: bool = False,
    progress: ProgressSink | None = None,
) -> Iterator[str]:
    """Yield the lines of a file with the best passages of each question.

    Args:
        answerer: of the knowledge base.
        asked: what `read_open_questions` gave.
        form: of the file.
        options: how many passages, and what ranks them.
        mark_phrases: put DensePhrases' marks around the phrase by which each passage was found.
        progress: shows how far it is.
    """
    options, progress = options or RetrievingOptions(), progress or NoProgress()

    def records() -> Iterator[dict[str, Any]]:
        progress.begin(f"passages for {asked.path.name}", len(asked.questions), "")
        for begin in range(0, len(asked.questions), BATCH):
            some = asked.questions[begin : begin + BATCH]
            for question, hits in zip(some, retrieve_passages(answerer, some, options), strict=True):
                yield passage_record(found_passages(question, hits, mark_phrases=mark_phrases), form, hits)
            progress.advance(len(some))

    return passage_lines(records(), form)


def passage_lines(records: Iterable[dict[str, Any]], form: PassageFormat) -> Iterator[str]:
    """Yield the lines of a file of the form: JSON lines for KILT, else one list with a record a line."""
    if form == "kilt":
        for record in records:
            yield json.dumps(record, ensure_ascii=False) + "\n"
        return
    before = "[\n"
    for record in records:
        yield before + json.dumps(record, ensure_ascii=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def read_passages(path: str | Path) -> list[FoundPassages]:
    """Return the questions of a file of DPR's or FiD's form: a JSON list, or a record a line.

    Raises:
        RecordError: it is no such file.
    """
    with open_text(path) as stream:
        text = stream.read()
    try:
        rows = json.loads(text) if text.lstrip()[:1] == "[" else [json.loads(each) for each in text.split("\n") if each]
        return [_found(row, number) for number, row in enumerate(rows)]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RecordError(
            f"is no file of questions with passages ({error})",
            "bad_passages",
            "give DPR's or FiD's JSON: a list of objects with question, answers and ctxs",
            file=str(path),
            line=None,
        ) from error


def _found(row: Mapping[str, Any], number: int) -> FoundPassages:
    answers = row["answers"]
    if not isinstance(answers, list):
        raise TypeError(f"answers of question {number} are no list")
    return FoundPassages(str(row.get("id", number)), str(row["question"]), tuple(answers), tuple(row["ctxs"]))


def _marked(hit: Hit) -> str:
    begin, end = PHRASE_MARKS
    text, phrase = hit.passage.text, hit.phrase
    return f"{text[: phrase.start]}{begin}{text[phrase.start : phrase.end]}{end}{text[phrase.end :]}"
