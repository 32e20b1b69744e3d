"""What a sparse encoder's `sparse.json` says. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, get_args

from kbengine.encoders.config import require_int
from kbengine.errors import EncoderError

Side = Literal["start", "end"]
SIDES: Final[tuple[Side, ...]] = get_args(Side)

MAX_ORDER: Final = 3
"""Longest n-grams. The paper found trigrams to make things worse, so they are there to be measured, not by default."""
MAX_TOP: Final = 255
"""Most n-grams kept of one token and side: their number is stored in a byte."""


@dataclass(frozen=True)
class SparseConfig:
    """A whole `sparse.json`, checked.

    Attributes:
        hidden_size: Of the phrase encoder's token states, which the heads read whole.
        orders: Lengths of the n-grams: 1 unigrams, 2 bigrams, 3 trigrams.
        shared_heads: Whether queries go through the passages' own heads, as in the paper, where one encoder reads both.
            With separate encoders the states differ, and so do the heads by default.
        head_size: Dimensions that Q and K project states to. The paper's are square; narrow ones learn as much from
            few rows and are a sixth of the size.
        top: N-grams kept of each stored token and side, the heaviest.
    """

    hidden_size: int
    orders: tuple[int, ...] = (1, 2)
    shared_heads: bool = False
    head_size: int = 64
    top: int = 24

    def __post_init__(self) -> None:
        for name in ("hidden_size", "head_size"):
            require_int(name, getattr(self, name), 1)
        known = set(range(1, MAX_ORDER + 1))
        if not self.orders or list(self.orders) != sorted(set(self.orders)) or not set(self.orders) <= known:
            raise EncoderError(f"orders is {self.orders!r}, wanted some of 1, 2 and 3, rising")
        if not isinstance(self.shared_heads, bool):
            raise EncoderError(f"shared_heads is {self.shared_heads!r}, wanted true or false")
        if isinstance(self.top, bool) or not isinstance(self.top, int) or not 1 <= self.top <= MAX_TOP:
            raise EncoderError(f"top is {self.top!r}, wanted a whole number from 1 to {MAX_TOP}")

    @classmethod
    def from_json(cls, value: object, where: str) -> SparseConfig:
        """Return the configuration in a parsed `sparse.json`; unknown and missing keys are refused."""
        names = {each.name for each in fields(cls)}
        if not isinstance(value, Mapping) or set(value) != names:
            seen = sorted(value) if isinstance(value, Mapping) else type(value).__name__
            raise EncoderError(f"{where} has {seen}, wanted {sorted(names)}; copy the model directory again")
        values: dict[str, Any] = dict(value)
        orders = values.pop("orders")
        return cls(orders=tuple(orders) if isinstance(orders, list) else (), **values)

    def to_json(self) -> dict[str, Any]:
        """Return what `sparse.json` holds."""
        return asdict(self) | {"orders": list(self.orders)}
