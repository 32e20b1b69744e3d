"""AdamW over parameter groups, its schedule, and its state under the parameters' names."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from kbengine.errors import InvalidOptionError, TrainingError
from kbengine.learning.loop.options import OptimizerOptions

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class NamedAdamW:
    """AdamW whose state is kept by parameter name, and whose rate is a function of the step alone."""

    def __init__(self, model: nn.Module, options: OptimizerOptions, *, n_steps: int) -> None:
        """Make the groups: matrices, and vectors (biases, norms), which have no weight decay, per rate factor.

        Raises:
            InvalidOptionError: a prefix of `rate_factors` fits no parameter, or nothing is left to train.
        """
        self.options = options
        self.n_steps = n_steps
        _check_prefixes(model, options)
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        self._names: dict[str, nn.Parameter] = {}
        for name, parameter in model.named_parameters():
            factor = next((factor for prefix, factor in options.rate_factors if name.startswith(prefix)), 1.0)
            if factor == 0:
                parameter.requires_grad_(False)
            if not parameter.requires_grad:
                continue
            decay = options.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((factor, decay), []).append(parameter)
            self._names[name] = parameter
        if not self._names:
            raise InvalidOptionError("every parameter is frozen, wanted some to train; lift a rate factor of 0")
        self._adamw = torch.optim.AdamW(
            [
                {"params": parameters, "weight_decay": decay, "factor": factor}
                for (factor, decay), parameters in groups.items()
            ],
            lr=options.learning_rate,
            betas=(options.beta1, options.beta2),
            eps=options.epsilon,
            # One pass over each parameter instead of ten. On a GPU torch's choice is as fast.
            fused=True if all(p.device.type == "cpu" for p in self._names.values()) else None,
        )

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters that are trained, in the model's order."""
        return list(self._names.values())

    def rate(self, step: int) -> float:
        """Return the learning rate of the step (from 0), before factors: linear warm-up, then linear decay to 0."""
        n_warmup = round(self.options.warmup_fraction * self.n_steps)
        if step < n_warmup:
            return self.options.learning_rate * (step + 1) / n_warmup
        return self.options.learning_rate * max(0.0, (self.n_steps - step) / max(1, self.n_steps - n_warmup))

    def step(self, step: int) -> float:
        """Return the norm of the gradients before clipping; the parameters have moved and gradients are gone.

        Raises:
            TrainingError: a gradient is not finite; the parameters are as before.
        """
        norm = float(nn.utils.get_total_norm(p.grad for p in self.parameters if p.grad is not None))
        if norm != norm or norm == float("inf"):
            raise TrainingError(
                f"the gradient of step {step + 1} is not finite; lower the learning rate (now "
                f"{self.options.learning_rate}), train in float32 or look for broken rows"
            )
        if 0 < self.options.clip_norm < norm:
            scale = self.options.clip_norm / norm
            torch._foreach_mul_([p.grad for p in self.parameters if p.grad is not None], scale)
        rate = self.rate(step)
        for group in self._adamw.param_groups:
            group["lr"] = rate * group["factor"]
        self._adamw.step()
        self._adamw.zero_grad(set_to_none=True)
        return norm

    def state(self) -> dict[str, Tensor]:
        """Return the moments as `NAME.exp_avg`, `NAME.exp_avg_sq` and `NAME.step`."""
        return {
            f"{name}.{moment}": self._adamw.state[parameter][moment].detach()
            for name, parameter in self._names.items()
            for moment in _MOMENTS
            if moment in self._adamw.state[parameter]
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave.

        Raises:
            TrainingError: it is of other parameters.
        """
        wanted = {f"{name}.{moment}" for name in self._names for moment in _MOMENTS}
        # Parameters that had no gradient yet (a head whose loss begins later) have no moments.
        if unknown := sorted(set(state) - wanted):
            raise TrainingError(f"the optimiser's state holds {unknown[0]}, which is not trained here; start anew")
        for name, parameter in self._names.items():
            if f"{name}.step" not in state:
                continue
            self._adamw.state[parameter] = {
                # AdamW counts steps on the CPU.
                moment: state[f"{name}.{moment}"].to("cpu" if moment == "step" else parameter.device)
                for moment in _MOMENTS
            }


def _check_prefixes(model: nn.Module, options: OptimizerOptions) -> None:
    names = [name for name, _ in model.named_parameters()]
    for prefix, _ in options.rate_factors:
        if not any(name.startswith(prefix) for name in names):
            tops = sorted({name.partition(".")[0] for name in names})
            raise InvalidOptionError(
                f"rate_factors names {prefix!r}, which begins no parameter's name; those begin with {', '.join(tops)}"
            )
