"""Training the verdict model: claims are seen with their evidence, some of them beside passages of other pages too.

The loss is that of the verdict which all passages of a claim give together, as they do when the model is used (see
`kbengine.verdicts.verdict`): the passages' log-odds weighted by the softmax of their relevances. Where there are other
passages, the evidence's share in that softmax is learned besides, so that what was only found near the claim is not
listened to.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from kbengine.encoders.encoder import PassageText
from kbengine.errors import TrainingDataError
from kbengine.inputs import Question
from kbengine.learning.data.claims import ClaimExample
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.loop.batch import OnDevice
from kbengine.learning.loop.options import require, require_count
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.task import Evaluation, LossTerms, Position, TrainingTask
from kbengine.learning.reading.losses import marginal_loss
from kbengine.reading.inputs import padded, reader_inputs
from kbengine.reading.reader import reader_tokenizer
from kbengine.verdicts.judge import Judge
from kbengine.verdicts.model import VerdictNetwork
from kbengine.verdicts.verdict import VERDICTS

_TRIES = 8
"""Random claims looked at for one whose evidence is of another page."""


@dataclass(frozen=True)
class VerdictTrainingOptions:
    """What the model sees beside the evidence.

    Attributes:
        negative_fraction: Probability that a claim is seen with other passages too, mined ones where there are any.
        n_negatives: With how many at most.
        max_dev_examples: Development claims read at each evaluation, evenly spread; None: all.
        seed: Of the choice of other passages.
    """

    negative_fraction: float = 0.5
    n_negatives: int = 1
    max_dev_examples: int | None = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        share = self.negative_fraction
        require(0 <= share <= 1, "negative_fraction", share, "a share from 0 to 1")
        if self.max_dev_examples is not None:
            require_count("max_dev_examples", self.max_dev_examples)
        require_count("n_negatives", self.n_negatives)
        require_count("seed", self.seed, least=0)


@dataclass(frozen=True)
class VerdictBatch(OnDevice):
    """What the model reads and should say of G claims, in B inputs.

    Attributes:
        input_ids: int64 (B, T).
        token_types: int64 (B, T).
        is_token: bool (B, T), None without padding.
        of_claim: bool (G, B), which inputs a claim is seen with.
        is_evidence: bool (B,), false for passages of other pages.
        supports: float32 (G,), 1 where the evidence supports the claim, 0 where it refutes it.
    """

    input_ids: Tensor
    token_types: Tensor
    is_token: Tensor | None
    of_claim: Tensor
    is_evidence: Tensor
    supports: Tensor


def combined_log_odds(log_odds: Tensor, relevance: Tensor, of_claim: Tensor) -> Tensor:
    """Return the log-odds of each claim, float32 (G,): those of its inputs, weighted by the softmax of relevances.

    Args:
        log_odds: float (B,).
        relevance: float (B,).
        of_claim: bool (G, B), at least one input a claim.
    """
    weights = relevance.float().expand(len(of_claim), -1).masked_fill(~of_claim, -torch.inf).softmax(dim=1)  # (G, B)
    return weights @ log_odds.float()


class VerdictTask(TrainingTask[VerdictBatch]):
    """A verdict model with its claims, for `kbengine.learning.loop.loop.train`."""

    model: VerdictNetwork

    def __init__(
        self,
        model: VerdictNetwork,
        tokenizer_json: str,
        examples: Sequence[TrainingExample],
        dev: Sequence[TrainingExample] = (),
        *,
        options: VerdictTrainingOptions | None = None,
    ) -> None:
        """Take the claims among the examples.

        Raises:
            TrainingDataError: there is none, or all have one verdict.
        """
        self._examples = [example for example in examples if isinstance(example, ClaimExample)]
        self.counts = Counter(example.verdict for example in self._examples)
        if len(self.counts) < len(VERDICTS):
            seen = ", ".join(f"{n} {verdict}" for verdict, n in self.counts.items()) or "none"
            raise TrainingDataError(
                f"the training claims are {seen}; wanted some of each, {' and '.join(VERDICTS)}: give rows of both"
            )
        super().__init__(model, len(self._examples))
        self._options = options or VerdictTrainingOptions()
        self._dev = _spread([e for e in dev if isinstance(e, ClaimExample)], self._options.max_dev_examples)
        self._config = model.config
        self._tokenizer_json = tokenizer_json
        self._tokenizer = reader_tokenizer(tokenizer_json, model.config, "the initial model")

    def collate(self, indices: Sequence[int], *, epoch: int) -> VerdictBatch:
        """Return the batch of these claims, each with its evidence and the other passages drawn for this epoch."""
        chosen = [self._examples[i] for i in indices]
        others = [
            self._others(self._examples[i], np.random.default_rng((self._options.seed, epoch, i))) for i in indices
        ]
        seen = [
            (number, example.query, passage, is_evidence)
            for number, (example, wrong) in enumerate(zip(chosen, others, strict=True))
            for is_evidence, passages in ((True, example.evidence), (False, wrong))
            for passage in passages
        ]
        inputs = reader_inputs(
            [query for _, query, _, _ in seen],
            [passage for _, _, passage, _ in seen],
            self._tokenizer,
            self._config,
            truncate=True,
        )
        arrays = padded(inputs, self._tokenizer, self._config)
        of_claim = torch.zeros((len(chosen), len(inputs)), dtype=torch.bool)
        for row, each in enumerate(inputs):
            of_claim[seen[each.pair][0], row] = True
        return VerdictBatch(
            torch.from_numpy(arrays.ids),
            torch.from_numpy(arrays.types),
            None if arrays.is_token is None else torch.from_numpy(arrays.is_token),
            of_claim,
            torch.tensor([seen[each.pair][3] for each in inputs]),
            torch.tensor([float(example.verdict == "SUPPORTS") for example in chosen]),
        )

    def losses(self, batch: VerdictBatch, position: Position, processes: Processes) -> LossTerms:  # noqa: ARG002
        """Return the verdicts' loss, and that of the evidence's relevance."""
        batch = batch.to(processes.device)
        output = self.model(batch.input_ids, batch.token_types, batch.is_token)
        together = combined_log_odds(output.log_odds, output.relevance, batch.of_claim)
        verdict = binary_cross_entropy_with_logits(together, batch.supports)
        competes = (batch.of_claim & ~batch.is_evidence).any(dim=1)  # (G,)
        own = batch.of_claim[competes]
        if len(own):
            relevance = marginal_loss(output.relevance.expand(len(own), -1), own, own & batch.is_evidence)
        else:
            relevance = output.relevance.sum() * 0.0
        return LossTerms(verdict + relevance, {"verdict": verdict, "relevance": relevance})

    def evaluate(self, processes: Processes) -> Evaluation | None:
        """Return accuracy on the development claims, each with its own evidence; every process reads its share."""
        if not self._dev:
            return None
        own = self._dev[processes.rank :: processes.world]
        sums = torch.zeros(2 + 2 * len(VERDICTS), dtype=torch.float64, device=processes.device)
        if own:
            judge = Judge.from_model(self.model, self._tokenizer_json, device=str(processes.device), dtype="float32")
            claims = [example.query for example in own if isinstance(example.query, Question)]
            found = judge.judge(claims, [example.evidence for example in own], truncate=True)
            is_right = [each is not None and each.verdict == e.verdict for e, each in zip(own, found, strict=True)]
            counts = [float(sum(is_right)), float(len(own))]
            for verdict in VERDICTS:
                of_class = [right for e, right in zip(own, is_right, strict=True) if e.verdict == verdict]
                counts += [float(sum(of_class)), float(len(of_class))]
            sums += torch.tensor(counts, device=processes.device)
        right, n, *by_class = processes.mean(sums.float()).tolist()
        measures = {"accuracy": 100 * right / n}
        for number, verdict in enumerate(VERDICTS):
            if by_class[2 * number + 1]:
                measures[f"recall_{verdict.lower()}"] = 100 * by_class[2 * number] / by_class[2 * number + 1]
        return Evaluation(measures["accuracy"], measures)

    def fingerprint(self) -> str:
        """Return a checksum over the claims, the options and the tokenizer."""
        digest = hashlib.sha256(self._tokenizer_json.encode())
        digest.update(json.dumps([self._config.to_json(), repr(self._options)]).encode())
        for example in (*self._examples, *self._dev):
            said = (example.id, example.query, example.evidence, example.verdict, example.negatives)
            digest.update(repr(said).encode())
        return digest.hexdigest()

    def _others(self, example: ClaimExample, rng: np.random.Generator) -> list[PassageText]:
        """Return passages of other pages for a claim, as far as any are wanted and found."""
        if rng.random() >= self._options.negative_fraction:
            return []
        titles = example.negative_titles or ("",) * len(example.negatives)
        evidence = {passage.text for passage in example.evidence}
        mined = [PassageText(*each) for each in zip(titles, example.negatives, strict=True) if each[1] not in evidence]
        if mined:
            n = min(self._options.n_negatives, len(mined))
            return [mined[i] for i in rng.choice(len(mined), size=n, replace=False).tolist()]
        known = {passage.title for passage in example.evidence}
        found: dict[PassageText, None] = {}
        for _ in range(_TRIES * self._options.n_negatives):
            other = self._examples[int(rng.integers(len(self._examples)))].evidence[0]
            if other.title not in known and len(found) < self._options.n_negatives:
                found[other] = None
        return list(found)


def _spread(examples: Sequence[ClaimExample], wanted: int | None) -> list[ClaimExample]:
    """Return at most as many examples as are wanted, evenly spread over the set."""
    if wanted is None or len(examples) <= wanted:
        return list(examples)
    places: NDArray[np.int64] = np.linspace(0, len(examples) - 1, wanted).astype(np.int64)
    return [examples[i] for i in places.tolist()]
