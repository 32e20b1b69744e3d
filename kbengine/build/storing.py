"""What a knowledge base stores of its tokens: all of them or those that are indexed, and in how many bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from kbengine.errors import InvalidOptionError
from storage.settings import CODE_BITS

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from storage.quantiser import Quantiser

StoredTokens = Literal["all", "indexed"]
STORED_TOKENS: tuple[StoredTokens, ...] = get_args(StoredTokens)

STORED_CODE_FILE = "stored_code.safetensors"
"""Beside an encoder's weights: the 4-bit code that suits its vectors."""


@dataclass(frozen=True)
class StoreOptions:
    """What is stored of the tokens of a passage.

    Attributes:
        tokens: `all` of them, so that each can begin or end an answer in a passage that was found; or only those that
            are `indexed`, which take fewer bytes.
        code_bits: of a dimension of a token vector: 8, or 4 on the average.
    """

    tokens: StoredTokens = "all"
    code_bits: int = 4

    def __post_init__(self) -> None:
        if self.tokens not in STORED_TOKENS:
            raise InvalidOptionError(f"tokens to store are {self.tokens!r}, wanted one of {', '.join(STORED_TOKENS)}")
        if self.code_bits not in CODE_BITS:
            raise InvalidOptionError(
                f"code bits are {self.code_bits}, wanted one of {', '.join(str(bits) for bits in CODE_BITS)}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the options as stored in the knowledge base's settings."""
        return {"tokens": self.tokens, "bits": self.code_bits}

    def agree_with(self, stored: Mapping[str, Any]) -> bool:
        """Tell whether a knowledge base that was begun with these settings is what is asked for.

        One begun by an earlier version knows none: it goes on as it was begun.
        """
        return not stored or {name: stored.get(name) for name in ("tokens", "bits")} == self.to_json()


DEFAULT_STORE = StoreOptions()
"""What a build stores when nothing is said."""


def bundled_code(encoder: Encoder) -> Quantiser | None:
    """Return the 4-bit code that came with an encoder, None for one without: it is measured on the first vectors.

    Raises:
        CorruptError: the file is damaged, or belongs to another encoder.
    """
    from storage.quantiser_file import read_quantiser_of

    if encoder.directory is None or not (encoder.directory / STORED_CODE_FILE).exists():
        return None
    return read_quantiser_of(encoder.directory / STORED_CODE_FILE, passage_fingerprint=encoder.passage_fingerprint)
