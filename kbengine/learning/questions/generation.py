"""All that `kbengine questions` does: the generator and the filter chosen, their rows written."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kbengine.build.builder import CorpusOptions
from kbengine.corpus.reader import read_corpus
from kbengine.errors import InvalidOptionError
from kbengine.learning.questions.answers import AnswerOptions
from kbengine.learning.questions.cloze import ClozeOptions, ClozeSource
from kbengine.learning.questions.generate import GenerateOptions, Seq2SeqSource
from kbengine.learning.questions.generated import GeneratedQuestion
from kbengine.learning.questions.name_index import NameIndex
from kbengine.learning.questions.round_trip import RoundTripOptions, passes_round_trip
from kbengine.learning.questions.writing import Keep, QuestionSource, WrittenQuestions, write_questions
from kbengine.progress import NoProgress, ProgressSink

CLOZE: Final = "cloze"


@dataclass(frozen=True)
class QuestionsOptions:
    """What makes the questions and what they have to pass.

    Attributes:
        generator: "cloze", or the folder or hub name of a sequence-to-sequence model.
        reader: Directory of a reader that has to give the answers back; None keeps every question.
        device: Where the models compute.
        cloze: For the cloze generator.
        model: For a model.
        round_trip: For the reader.
    """

    generator: str = CLOZE
    reader: Path | None = None
    device: str = "auto"
    cloze: ClozeOptions = field(default_factory=ClozeOptions)
    model: GenerateOptions = field(default_factory=GenerateOptions)
    round_trip: RoundTripOptions = field(default_factory=RoundTripOptions)

    @property
    def answers(self) -> AnswerOptions:
        """Return the options that choose the answers, of whichever generator it is."""
        return self.cloze.answers if self.generator == CLOZE else self.model.answers


def generate_questions(
    corpus: CorpusOptions,
    out: Path,
    options: QuestionsOptions,
    *,
    overwrite: bool = False,
    progress: ProgressSink | None = None,
) -> WrittenQuestions:
    """Write the questions of a corpus to `out` as KILT rows; see `write_questions`.

    Raises:
        EncoderError: the generator or the reader cannot be loaded.
        InvalidOptionError: the file exists, or an unfinished run for it was another one.
        CorpusError: the corpus cannot be read.
    """
    source: QuestionSource
    if options.generator == CLOZE:
        source = ClozeSource(options.cloze, _names(corpus, options.cloze, progress or NoProgress()))
    else:
        source = Seq2SeqSource.load(options.generator, dataclasses.replace(options.model, device=options.device))
    keep, fingerprint = _round_trip(options)
    request = _request(corpus, options) | {"reader": fingerprint}
    return write_questions(
        corpus, out, source, options.answers, request=request, keep=keep, overwrite=overwrite, progress=progress
    )


def _names(corpus: CorpusOptions, cloze: ClozeOptions, progress: ProgressSink) -> NameIndex | None:
    """Return the names of the corpus's documents where links are wanted: the corpus is then read twice."""
    if not cloze.wants_links:
        return None
    if "-" in map(str, corpus.paths):
        raise InvalidOptionError("links need the corpus twice, and standard input can be read once; give files")
    reading = read_corpus(corpus.paths, format=corpus.format, skip_bad=corpus.skip_bad)
    progress.begin("reading names", None, "documents")
    return NameIndex((document for document, _ in reading), exclude=cloze.answers.exclude)


def _round_trip(options: QuestionsOptions) -> tuple[Keep | None, str | None]:
    """Return the filter and the fingerprint of its reader, or two times nothing."""
    if options.reader is None:
        return None, None
    from kbengine.reading.reader import Reader

    reader = Reader.load(options.reader, device=options.device)

    def keep(questions: Sequence[GeneratedQuestion]) -> list[bool]:
        return passes_round_trip(questions, reader, options.round_trip)

    return keep, reader.fingerprint


def _request(corpus: CorpusOptions, options: QuestionsOptions) -> dict[str, Any]:
    """Return all that the rows depend on but the reader, as JSON values."""
    of_generator = options.cloze if options.generator == CLOZE else options.model
    plain = dataclasses.asdict(of_generator)
    answers = plain.pop("answers")
    excluded = "\n".join(sorted(answers.pop("exclude")))
    return {
        "corpus": [str(path) for path in corpus.paths],
        "format": corpus.format,
        "skip_bad": corpus.skip_bad,
        "generator": options.generator,
        "options": {name: value for name, value in plain.items() if name not in ("device", "batch_size")},
        "answers": answers,
        "excluded": hashlib.sha256(excluded.encode("utf-8")).hexdigest(),
        "round_trip": dataclasses.asdict(options.round_trip),
    }
