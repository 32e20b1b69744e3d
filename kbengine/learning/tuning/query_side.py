"""The trainable half of an encoder: deltas over frozen weights, computed with as if the weights were theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from kbengine.encoders.deltas import ParameterOptions, applied, differences, initial_deltas
from kbengine.encoders.model import PhraseModel, QueryOutput, query_weights


class _Query(nn.Module):
    """A model whose `forward` encodes queries: `functional_call` wants one."""

    def __init__(self, model: PhraseModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, is_token: Tensor | None) -> QueryOutput:
        return self.model.query_vectors(input_ids, is_token)


class QuerySide(nn.Module):
    """The deltas of a query side, its only parameters: what optimiser, checkpoints and `state_dict` see.

    The model that they change is kept beside, frozen; its passage side is never computed with.
    """

    def __init__(self, model: PhraseModel, options: ParameterOptions, *, seed: int = 0) -> None:
        """Begin with the model as it is.

        Raises:
            InvalidOptionError: heads are wanted of a model that has none.
        """
        super().__init__()
        self.options = options
        query = _Query(model.requires_grad_(False))
        self._frozen = (query,)  # in a tuple, so that it is no submodule
        base = query_weights(model.state_dict())
        generator = torch.Generator().manual_seed(seed)
        for name, tensor in initial_deltas(base, options, generator=generator).items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(tensor))

    def forward(self, input_ids: Tensor, is_token: Tensor | None) -> QueryOutput:
        """Return the vectors of queries by the tuned weights, as `PhraseModel.query_vectors` does."""
        weights = {f"model.{name}": tensor for name, tensor in self.weights().items()}
        output: QueryOutput = functional_call(self._frozen[0], weights, (input_ids, is_token))
        return output

    def start_vectors(self, input_ids: Tensor, is_token: Tensor | None) -> QueryOutput:
        """Return the vectors of queries by the weights that tuning began with, in evaluation mode, no gradient."""
        query = self._frozen[0]
        was_training = query.training
        query.eval()
        with torch.no_grad():
            output = query.model.query_vectors(input_ids, is_token)
        query.train(was_training)
        return output

    def deltas(self) -> dict[str, Tensor]:
        """Return the trainable tensors under the names that `kbengine.encoders.deltas` speaks of."""
        return {name.replace("/", "."): parameter for name, parameter in self.named_parameters()}

    def weights(self, deltas: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Return the tuned weights, whole modules, by these deltas or by the present ones."""
        base = query_weights(self._frozen[0].model.state_dict())
        return applied(base, self.deltas() if deltas is None else deltas, self.options.scale)

    def squared_change(self) -> Tensor:
        """Return the squared L2 distance of the weights from those that tuning began with, a scalar."""
        changes = differences(self.deltas(), self.options.scale).values()
        return torch.stack([change.float().square().sum() for change in changes]).sum()

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode, the frozen model's dropout too."""
        self._frozen[0].train(mode)
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self._frozen[0]._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch
        return super()._apply(fn, recurse)  # type: ignore[no-any-return,no-untyped-call]  # torch
