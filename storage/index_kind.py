"""The kinds of index that a knowledge base's token vectors can have, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from storage.errors import InvalidOptionError

__all__ = ["DEFAULT_KIND", "INDEX_KINDS", "LARGE_KIND", "LARGE_ROWS", "STORED_KIND", "IndexKind"]

Coding = Literal["none", "int8", "scalar", "product", "mixed"]

DEFAULT_KIND = "ivf-sq8"
"""Of knowledge bases whose settings name no kind, and of those too small for a quantiser."""

LARGE_KIND = "opq-fastscan"
"""What knowledge bases are built with that are large, where no kind is chosen."""

LARGE_ROWS = 500_000
"""Indexed vectors from which on they are."""

INDEX_KINDS = (
    "exact",
    "ivf-sq8",
    "ivf-sq4",
    "opq16",
    "opq32",
    "opq48",
    "opq96",
    "opq-fastscan",
)
"""Names for people; `opqN` takes any N that divides the dimension.

`ivf-pq` and `ivf-pqN`, product codes without the rotation that OPQ trains, and `fastscan`, which is to `opq-fastscan`
what they are to `opqN`, are read and compared with, not offered.
"""

STORED_KIND = "principal"
"""What token vectors are stored as: no kind of index, but coded by a quantiser as these are."""

_NUMBERED = re.compile(r"(opq|ivf-pq)([1-9][0-9]{0,3})")


@dataclass(frozen=True)
class IndexKind:
    """What an index looks at while it seeks candidates.

    Attributes:
        name: One of `INDEX_KINDS`, or one of their numbered relatives.
        coding: The codes of the segment, scanned whole ("none") or in lists ("int8"); 4 bits a dimension ("scalar");
            codebook entries for groups of dimensions ("product"). The last two are of residuals. What is stored has
            0 to 8 bits a dimension, 4 on the average, along the principal axes ("mixed").
        n_groups: Groups of a product quantiser; None: chosen by the dimension.
        bits: Bits of a code.
        rotated: Residuals are rotated before they are coded (optimised product quantisation).
        fast_scan: Codes are packed for scanning many at once in registers.
        refine: Candidates rescored from the int8 vectors for each row wanted, where those are stored.
    """

    name: str
    coding: Coding
    n_groups: int | None = None
    bits: int = 8
    rotated: bool = False
    fast_scan: bool = False
    refine: int = 1

    @classmethod
    def of(cls, name: str) -> IndexKind:
        """Return the kind of this name; InvalidOptionError for an unknown one."""
        numbered = _NUMBERED.fullmatch(name)
        if numbered is not None:
            rotated = numbered[1] == "opq"
            return cls(name, "product", n_groups=int(numbered[2]), rotated=rotated, refine=4)
        plain = {
            "exact": cls(name, "none"),
            "ivf-sq8": cls(name, "int8"),
            "ivf-sq4": cls(name, "scalar", bits=4, refine=2),
            "ivf-pq": cls(name, "product", refine=4),
            "fastscan": cls(name, "product", bits=4, fast_scan=True, refine=10),
            LARGE_KIND: cls(name, "product", bits=4, rotated=True, fast_scan=True, refine=4),
            STORED_KIND: cls(name, "mixed", bits=4, rotated=True),
        }
        if name not in plain:
            raise InvalidOptionError(f"index kind is {name!r}; wanted one of {', '.join(INDEX_KINDS)}")
        return plain[name]

    @property
    def has_uneven_groups(self) -> bool:
        """Whether groups have as many axes as their variances allow, not all of them equally many."""
        return self.fast_scan and self.rotated

    @property
    def needs_quantiser(self) -> bool:
        """Whether something has to be trained before vectors can be coded."""
        return self.coding in ("scalar", "product")

    def groups(self, d: int) -> int:
        """Return how many codes a vector of dimension d gets; InvalidOptionError when the groups would not be equal."""
        if self.coding in ("scalar", "mixed"):
            return d
        if self.has_uneven_groups:
            # An even number: FAISS scans two groups at a time.
            return min(d, max(1, 2 * round(d / 6)))
        wanted = self.n_groups or (d // 2 if self.bits == 4 else d // 4)
        if wanted < 1 or d % wanted:
            fitting = [n for n in (8, 16, 24, 32, 48, 64, 96, 128) if d % n == 0]
            raise InvalidOptionError(
                f"index kind {self.name!r} has {wanted} groups of dimensions, the vectors have {d}: wanted a number "
                f"that divides it, e.g. {', '.join(map(str, fitting)) or d}"
            )
        return wanted

    def code_bytes(self, d: int) -> int:
        """Return bytes of a coded vector, without its list number."""
        return -(-self.groups(d) * self.bits // 8)

    def least_rows(self) -> int:
        """Return how many vectors training takes at least."""
        return 1 if self.coding in ("scalar", "mixed") else 2**self.bits
