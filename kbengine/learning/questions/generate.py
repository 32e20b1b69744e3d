"""Questions from a sequence-to-sequence model of the T5 family, for answers that the rules propose.

Two input formats are in use among published question generators, and both are supported:

highlight   `generate question: text before <hl> answer <hl> text after`
prepend     `answer: the answer context: the text`

The prefixes and the mark are options, since models differ in them; a model's card says which it was trained with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from kbengine.corpus.document import CorpusDocument
from kbengine.errors import EncoderError, InvalidOptionError
from kbengine.inputs import Question
from kbengine.learning.loop.options import require
from kbengine.learning.questions.answers import MARKS, Answer, AnswerOptions, Quota, ranked_answers
from kbengine.learning.questions.generated import GeneratedQuestion
from kbengine.learning.questions.words import context_around

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

InputFormat = Literal["highlight", "prepend"]
INPUT_FORMATS: Final[tuple[InputFormat, ...]] = get_args(InputFormat)

_CONTEXT_CHARS_PER_TOKEN: Final = 2
"""Context tried first on each side, per token of the input: about four characters of prose make a token."""


@dataclass(frozen=True)
class GenerateOptions:
    """How a model is asked for questions.

    Attributes:
        answers: Which spans get a question.
        format: How the answer is shown to the model.
        prefix: Text before the input; None takes the usual one of the format.
        mark: What the highlight format puts on both sides of the answer.
        batch_size: Inputs generated at once.
        max_input_tokens: Longer contexts are cut on both sides of the answer.
        max_question_tokens: Most tokens of a question.
        beams: Width of the beam search; 1 is greedy.
        device: auto, cpu, cuda or cuda:N.
    """

    answers: AnswerOptions = field(default_factory=AnswerOptions)
    format: InputFormat = "highlight"
    prefix: str | None = None
    mark: str = "<hl>"
    batch_size: int = 16
    max_input_tokens: int = 512
    max_question_tokens: int = 48
    beams: int = 4
    device: str = "auto"

    def __post_init__(self) -> None:
        require(self.format in INPUT_FORMATS, "the input format", self.format, " or ".join(INPUT_FORMATS))
        for name in ("batch_size", "max_question_tokens", "beams"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        require(self.max_input_tokens >= 32, "max_input_tokens", self.max_input_tokens, "32 or more")
        if not self.mark.strip():
            raise InvalidOptionError("the mark of the highlight format is blank, wanted a text such as <hl>")


def generator_input(answer: Answer, options: GenerateOptions, *, context_chars: int) -> str:
    """Return the text that the model reads for an answer, with so much context on each side, cut at words."""
    before, after = context_around(answer.passage.text, answer.span.start, answer.span.end, context_chars)
    if options.format == "prepend":
        prefix = "answer: " if options.prefix is None else options.prefix
        return f"{prefix}{answer.text} context: {before}{answer.text}{after}"
    prefix = "generate question: " if options.prefix is None else options.prefix
    return f"{prefix}{before}{options.mark} {answer.text} {options.mark}{after}"


class Seq2SeqSource:
    """A T5-family model as a source of questions: the same answers as the cloze generator takes, in its order."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, options: GenerateOptions
    ) -> None:
        self.options = options
        self.name = name
        self._model = model
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, name: str, options: GenerateOptions | None = None) -> Seq2SeqSource:
        """Return the source of a model in a local folder or on the hub.

        Raises:
            EncoderError: there is no such model, or it is not a sequence-to-sequence model with a tokeniser.
        """
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        from kbengine.encoders.device import choose_device

        options = options or GenerateOptions()
        device = choose_device(options.device)
        try:
            tokenizer = AutoTokenizer.from_pretrained(name)
            model = AutoModelForSeq2SeqLM.from_pretrained(name).to(device).eval()
        except (OSError, ValueError, ImportError, RuntimeError) as e:
            reason = str(e).strip().split("\n")[0]
            raise EncoderError(
                f"no question generator in {name!r}: {reason}; name a folder or a hub model of the T5 family, "
                "or use --generator cloze, which needs no model"
            ) from e
        return cls(model, tokenizer, Path(name).name or name, options)

    def questions(self, documents: Sequence[CorpusDocument]) -> list[list[GeneratedQuestion]]:
        """Return the questions of each document; answers for which the model says nothing get none."""
        asked: list[tuple[int, Answer]] = []
        for i, document in enumerate(documents):
            asked += [(i, answer) for answer in self._answers(document)]
        texts = self._generate([self._input(answer) for _, answer in asked])
        made: list[list[GeneratedQuestion]] = [[] for _ in documents]
        for (i, answer), text in zip(asked, texts, strict=True):
            if text and not any(mark in text for mark in MARKS):
                made[i].append(self._question(documents[i], answer, text))
        return made

    def _input(self, answer: Answer) -> str:
        """Return the input with as much context as fits, so that no cut by the tokeniser can take the answer."""
        limit = self.options.max_input_tokens
        context_chars = _CONTEXT_CHARS_PER_TOKEN * limit
        while True:
            text = generator_input(answer, self.options, context_chars=context_chars)
            if context_chars == 0 or len(self._tokenizer(text)["input_ids"]) <= limit:
                return text
            context_chars = context_chars * 3 // 4 if context_chars > 8 else 0

    def _answers(self, document: CorpusDocument) -> list[Answer]:
        if document.doc_id in self.options.answers.exclude:
            return []
        quota = Quota(self.options.answers)
        chosen: list[Answer] = []
        for answer in ranked_answers(document, self.options.answers):
            if quota.admits(answer):
                quota.count(answer)
                chosen.append(answer)
        return chosen

    def _question(self, document: CorpusDocument, answer: Answer, text: str) -> GeneratedQuestion:
        id = f"{self.name}:{document.doc_id}:{answer.place}"
        return GeneratedQuestion(
            id, Question(text), document, answer.passage, answer.span, "question", answer.kind, self.name
        )

    def _generate(self, inputs: list[str]) -> list[str]:
        """Return one text an input, in order; the longest are generated together."""
        import torch

        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i]), reverse=True)
        texts = [""] * len(inputs)
        for first in range(0, len(order), self.options.batch_size):
            rows = order[first : first + self.options.batch_size]
            batch: Any = self._tokenizer(
                [inputs[i] for i in rows],
                return_tensors="pt",
                padding=True,
                truncation=True,
                max_length=self.options.max_input_tokens,
            )
            generate: Any = self._model.generate  # typed for every kind of model, callable with these alone
            with torch.inference_mode():
                ids = generate(
                    input_ids=batch["input_ids"].to(self._model.device),  # (B, T)
                    attention_mask=batch["attention_mask"].to(self._model.device),  # (B, T)
                    max_new_tokens=self.options.max_question_tokens,
                    num_beams=self.options.beams,
                    do_sample=False,
                )
            for i, text in zip(rows, self._tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
                texts[i] = " ".join(str(text).split())
        return texts
