"""The tensors of a DensePhrases checkpoint, under the names of a `three-tower` model.

Names as its `encoder.py` writes them, the older ones that its loader still renames, and those of the teacher, which
training checkpoints carry along and nothing needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

PHRASE_ENCODER = "phrase_encoder."
_TOWERS = (PHRASE_ENCODER, "query_start_encoder.", "query_end_encoder.")
_LEGACY = {"bert_start.": PHRASE_ENCODER, "bert_q_start.": "query_start_encoder.", "bert_q_end.": "query_end_encoder."}
_TEACHER = ("cross_encoder.", "bert_qd.", "qa_outputs.")
_FILTER = {"filter_linear.weight": "filter_head.weight", "filter_linear.bias": "filter_head.bias"}
_UNUSED = re.compile(r"\.(pooler\.dense\.(weight|bias)|embeddings\.(position_ids|token_type_ids))$")
_NORM = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


@dataclass(frozen=True)
class MappedTensors:
    """The tensors that are used, and what became of the others' names.

    Attributes:
        weights: By the names of a `three-tower` model.
        renamed: Old names that became new ones, as "old → new" of their first parts.
        left_out: Groups of tensors that are known and not needed: the teacher, poolers, position ids.
        unknown: Names that are none of these.
    """

    weights: dict[str, Tensor] = field(default_factory=dict)
    renamed: dict[str, None] = field(default_factory=dict)  # an ordered set, as are the others
    left_out: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)


def map_tensors(stored: Mapping[str, Tensor]) -> MappedTensors:
    """Return a checkpoint's tensors under this project's names; values as they are."""
    found = MappedTensors()
    for name, tensor in stored.items():
        _take(name, tensor, found)
    return found


def _take(name: str, tensor: Tensor, found: MappedTensors) -> None:
    ours = name.removeprefix("module.")
    if ours != name:
        found.renamed["module.… → …"] = None
    for old, new in _LEGACY.items():
        if ours.startswith(old):
            ours = new + ours.removeprefix(old)
            found.renamed[f"{old}… → {new}…"] = None
    for old, new in _NORM.items():
        if ours.endswith(old):
            ours = ours.removesuffix(old) + new
            found.renamed[f"…{old} → …{new}"] = None
    if ours.startswith(_TEACHER):
        found.left_out[ours.partition(".")[0] + ".…"] = None
    elif ours in _FILTER:
        found.weights[_FILTER[ours]] = tensor
    elif not ours.startswith(_TOWERS):
        found.unknown[name] = None
    elif _UNUSED.search(ours):
        found.left_out["….pooler.…" if ".pooler." in ours else "….position_ids"] = None
    else:
        found.weights[ours] = tensor


def missing_parts(weights: Iterable[str]) -> list[str]:
    """Return which whole parts of a model are missing: towers, the filter's head."""
    names = list(weights)
    parts = [*_TOWERS, "filter_head."]
    return [part.rstrip(".") for part in parts if not any(name.startswith(part) for name in names)]
