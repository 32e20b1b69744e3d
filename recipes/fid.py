"""Fusion-in-Decoder: a T5 that reads many passages at once and writes the answer (EMNLP 2021, Table 2).

Run: python -m recipes.fid --init T5 --train PASSAGES.json --dev PASSAGES.json --out DIR [--passages 5 10 25 50]
The files are those of `kbengine export passages --format fid`. Every passage is encoded with the question by itself,
the decoder reads all of them (Izacard and Grave, EACL 2021). Writes the model to DIR, and to DIR/figures.json the exact
match of the development questions for each number of passages. Without --train the model in --init is evaluated.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from adapters.open_domain.matching import AnswerMatcher
from adapters.open_domain.passages import FoundPassages, read_passages
from kbengine.errors import TrainingDataError
from kbengine.learning.loop.interruption import Stop, stop_on_interrupt
from kbengine.progress import ProgressSink, progress_for_terminal
from kbengine.terminal.threads import set_thread_defaults

ANSWER_TOKENS = 32


@dataclass(frozen=True)
class FidOptions:
    """How a reader is trained and how much it reads."""

    n_passages: int = 10
    passage_tokens: int = 200
    batch_size: int = 4
    epochs: int = 3
    learning_rate: float = 1e-4
    seed: int = 0
    device: str = "cpu"


class FidReader:
    """A T5 with its tokeniser that reads several passages together."""

    def __init__(self, model: T5ForConditionalGeneration, tokenizer: PreTrainedTokenizerBase, options: FidOptions):
        self.model = model.to(options.device)
        self.tokenizer = tokenizer
        self.options = options

    @classmethod
    def load(cls, directory: str, options: FidOptions) -> FidReader:
        """Return the reader of a directory or hub name."""
        model = T5ForConditionalGeneration.from_pretrained(directory)
        return cls(cast(T5ForConditionalGeneration, model), AutoTokenizer.from_pretrained(directory), options)

    def encode(self, rows: Sequence[FoundPassages], n_passages: int) -> tuple[BaseModelOutput, Tensor]:
        """Return the states of all passages of each question in a row, (B, n·T, H), and what of them is text, (B, n·T).

        A question with fewer passages has blanks in their places, which the decoder does not see.
        """
        texts = [text for row in rows for text in inputs_of(row, n_passages)]
        read = self.tokenizer(
            texts, padding=True, truncation=True, max_length=self.options.passage_tokens, return_tensors="pt"
        ).to(self.options.device)
        is_text = read["attention_mask"] * torch.tensor([[bool(text)] for text in texts], device=self.options.device)
        # Of a blank one token is left to attend to, or its states would not be numbers; the decoder sees none of it.
        attended = torch.cat([torch.ones_like(is_text[:, :1]), is_text[:, 1:]], dim=1)
        states = self.model.get_encoder()(input_ids=read["input_ids"], attention_mask=attended).last_hidden_state
        fused = states.reshape(len(rows), -1, states.shape[-1])  # (B, n·T, H)
        return BaseModelOutput(last_hidden_state=fused), is_text.reshape(len(rows), -1)

    def loss(self, rows: Sequence[FoundPassages], targets: Sequence[str]) -> Tensor:
        """Return the mean cross-entropy of the targets' tokens."""
        states, is_text = self.encode(rows, self.options.n_passages)
        labels = self.tokenizer(
            list(targets), padding=True, truncation=True, max_length=ANSWER_TOKENS, return_tensors="pt"
        )["input_ids"].to(self.options.device)
        labels[labels == self.tokenizer.pad_token_id] = -100
        found = self.model(encoder_outputs=states, attention_mask=is_text, labels=labels)
        return cast(Tensor, found.loss)

    @torch.inference_mode()
    def answers(self, rows: Sequence[FoundPassages], n_passages: int) -> list[str]:
        """Return the answer written for each question, the likeliest token at each step."""
        self.model.eval()
        states, is_text = self.encode(rows, n_passages)
        written = self.model.generate(
            encoder_outputs=states, attention_mask=is_text, max_new_tokens=ANSWER_TOKENS, num_beams=1, do_sample=False
        )
        return list(self.tokenizer.batch_decode(written, skip_special_tokens=True))


def inputs_of(row: FoundPassages, n_passages: int) -> list[str]:
    """Return what the encoder reads for each of the best passages; blanks where there are fewer."""
    texts = [
        f"question: {row.question} title: {each.get('title', '')} context: {each.get('text', '')}"
        for each in row.passages[:n_passages]
    ]
    return texts + [""] * (n_passages - len(texts))


def train(reader: FidReader, rows: Sequence[FoundPassages], progress: ProgressSink, stop: Stop) -> list[float]:
    """Train the reader, one of a question's answers drawn each time, and return the mean loss of each epoch.

    Raises:
        TrainingDataError: no question has both passages and an answer.
    """
    usable = [row for row in rows if row.passages and row.answers]
    if not usable:
        raise TrainingDataError("no question has passages and an answer; export passages of training questions")
    options, draw = reader.options, random.Random(reader.options.seed)
    torch.manual_seed(options.seed)
    optimizer = torch.optim.AdamW(reader.model.parameters(), lr=options.learning_rate, weight_decay=0.01)
    epochs = []
    for epoch in range(options.epochs):
        reader.model.train()
        progress.begin(f"epoch {epoch + 1} of {options.epochs}", len(usable), "")
        order, losses = draw.sample(usable, len(usable)), []
        for some in batches(order, options.batch_size):
            if stop():
                return epochs
            loss = reader.loss(some, [draw.choice(row.answers) for row in some])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(reader.model.parameters(), 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
            progress.advance(len(some), f"loss {losses[-1]:.3f}")
        epochs.append(sum(losses) / len(losses))
    return epochs


def exact_match(reader: FidReader, rows: Sequence[FoundPassages], n_passages: int) -> float:
    """Return the percentage of questions whose written answer is one of theirs."""
    right = 0
    for some in batches(rows, reader.options.batch_size):
        written = reader.answers(some, n_passages)
        right += sum(AnswerMatcher(row.answers).is_right(text) for row, text in zip(some, written, strict=True))
    return 100 * right / len(rows)


def batches(rows: Sequence[FoundPassages], size: int) -> Iterator[Sequence[FoundPassages]]:
    """Give the rows a batch at a time."""
    return (rows[begin : begin + size] for begin in range(0, len(rows), size))


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--init", required=True, help="a T5's directory or hub name, such as t5-small")
    parser.add_argument("--train", type=Path)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--passages", type=int, nargs="+", default=[5, 10], help="numbers of passages to evaluate")
    parser.add_argument("--train-passages", type=int, help="passages read in training; by default the most evaluated")
    parser.add_argument("--passage-tokens", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--limit", type=int, help="the first so many questions of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train where there are training questions, evaluate, and write the model and its figures."""
    set_thread_defaults()
    given = arguments_of(arguments)
    options = FidOptions(
        given.train_passages or max(given.passages),
        given.passage_tokens,
        given.batch_size,
        given.epochs,
        given.learning_rate,
        given.seed,
        given.device,
    )
    dev = read_passages(given.dev)[: given.limit]
    reader = FidReader.load(given.init, options)
    given.out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {"init": given.init, "dev_questions": len(dev), "options": vars(options)}
    with progress_for_terminal() as progress, stop_on_interrupt() as stop:
        if given.train is not None:
            rows = read_passages(given.train)[: given.limit]
            figures |= {"train_questions": len(rows), "loss_of_epochs": train(reader, rows, progress, stop)}
            reader.model.save_pretrained(given.out)
            reader.tokenizer.save_pretrained(given.out)
        figures["em_by_passages"] = {str(n): round(exact_match(reader, dev, n), 2) for n in given.passages}
    (given.out / "figures.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(figures["em_by_passages"]))


if __name__ == "__main__":
    main()
