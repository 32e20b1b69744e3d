"""How a training run goes: optimiser, batches, precision, checkpoints; the same for every model that is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from kbengine.errors import InvalidOptionError

TrainingDType = Literal["auto", "float32", "bfloat16"]
TRAINING_DTYPES: tuple[TrainingDType, ...] = get_args(TrainingDType)


@dataclass(frozen=True)
class OptimizerOptions:
    """AdamW with linear warm-up and linear decay to zero.

    Attributes:
        learning_rate: The highest rate, reached at the end of the warm-up.
        weight_decay: Of matrices; biases and layer norms have none.
        warmup_fraction: Share of all steps over which the rate rises from zero.
        clip_norm: Gradients longer than this (L2, all parameters together) are shortened to it; 0 does not clip.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        epsilon: Added to the root of the second moment.
        rate_factors: (prefix of parameter names, factor) pairs; the first that fits multiplies the rate. A factor of 0
            freezes these parameters.
    """

    learning_rate: float = 3e-5
    weight_decay: float = 0.0
    warmup_fraction: float = 0.1
    clip_norm: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    rate_factors: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, "learning_rate", self.learning_rate, "more than 0")
        require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")
        require(0 <= self.warmup_fraction < 1, "warmup_fraction", self.warmup_fraction, "at least 0 and less than 1")
        require(self.clip_norm >= 0, "clip_norm", self.clip_norm, "0 (off) or more")
        for name in ("beta1", "beta2"):
            require(0 <= getattr(self, name) < 1, name, getattr(self, name), "at least 0 and less than 1")
        require(self.epsilon > 0, "epsilon", self.epsilon, "more than 0")
        # A table or lists, as a recipe has them, become what can be compared.
        given = self.rate_factors.items() if isinstance(self.rate_factors, Mapping) else self.rate_factors
        pairs = tuple((str(prefix), float(factor)) for prefix, factor in given)
        object.__setattr__(self, "rate_factors", pairs)
        for prefix, factor in pairs:
            require(factor >= 0, f"rate_factors[{prefix!r}]", factor, "0 (frozen) or more")


@dataclass(frozen=True)
class LoopOptions:
    """Batches, precision, seeds and what is written when.

    Attributes:
        epochs: Times that every example is seen.
        batch_size: Examples of one forward pass over all processes; in-batch negatives come from these.
        accumulate: Batches whose gradients are averaged before the optimiser steps.
        max_steps: Stop after so many optimiser steps, which the schedule then ends at; None: after all epochs.
        seed: Of data order, dropout and whatever the task draws.
        device: "auto", "cpu", "cuda" or "cuda:1"; several processes choose by their rank.
        dtype: What matrix products are computed in; "auto" is bfloat16 where the hardware has it, else float32.
        evaluate_every_steps: Optimiser steps between two development scores; None: one after every epoch. One more
            comes before the first step.
        patience: Stop after so many development scores in a row that were no better; None: never.
        checkpoint_every_steps: Steps between two checkpoints; None: one after every epoch.
        log_every_steps: Steps whose means are one line of the log.
        prefetch_batches: Batches prepared ahead by threads.
        tensorboard: Whether to write TensorBoard events too (needs the extra `training`).
        optimizer: The optimiser's options.
    """

    epochs: int = 4
    batch_size: int = 32
    accumulate: int = 1
    max_steps: int | None = None
    seed: int = 0
    device: str = "auto"
    dtype: TrainingDType = "auto"
    evaluate_every_steps: int | None = None
    patience: int | None = None
    checkpoint_every_steps: int | None = None
    log_every_steps: int = 10
    prefetch_batches: int = 4
    tensorboard: bool = False
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "log_every_steps", "prefetch_batches"):
            require_count(name, getattr(self, name))
        for name in ("max_steps", "evaluate_every_steps", "patience", "checkpoint_every_steps"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))
        require_count("seed", self.seed, least=0)
        require(self.dtype in TRAINING_DTYPES, "dtype", self.dtype, f"one of {', '.join(TRAINING_DTYPES)}")


def require(holds: bool, name: str, seen: object, wanted: str) -> None:
    """Raise InvalidOptionError naming the option, the value seen and the value wanted unless `holds`."""
    if not holds:
        raise InvalidOptionError(f"{name} is {seen!r}, wanted {wanted}")


def require_count(name: str, seen: object, *, least: int = 1) -> None:
    """Raise InvalidOptionError unless the value is a whole number from `least` up."""
    is_count = isinstance(seen, int) and not isinstance(seen, bool) and seen >= least
    require(is_count, name, seen, f"a whole number from {least} up")
