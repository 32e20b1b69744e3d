"""What a knowledge base was made with: written once, checked on open, stored as rows with checksums."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert

from storage import schema
from storage.ann_options import AnnOptions
from storage.checksum import check_row, sealed
from storage.errors import CorruptError, FormatTooNewError, InvalidOptionError
from storage.probing import Probing
from storage.quantiser_file import QuantiserFile
from storage.records import JSON, to_json

__all__ = [
    "CODE_BITS",
    "FORMAT_VERSION",
    "KBSettings",
    "read_setting",
    "read_settings",
    "write_setting",
    "write_settings",
]

FORMAT_VERSION = 2
"""Raised when an older kbengine could not read what this one writes."""

# Not in what the first versions of kbengine wrote.
_LATER_FIELDS = ("quantiser", "sparse", "store", "passage_quantiser")

CODE_BITS = (4, 8)
"""Bits of a dimension that token vectors may be stored in."""

BuildState = Literal["building", "complete"]


_LATER = ("passage_fingerprint",)
"""Fields that knowledge bases of earlier versions lack; an older kbengine does not miss them."""


@dataclass(frozen=True)
class KBSettings:
    """What shaped a knowledge base; rows of table `settings`, one per field.

    Attributes:
        encoder_name: Name of the encoder, for people.
        encoder_fingerprint: sha256 over its configuration, weights and tokenizer; compared on open.
        d: Dimension of token and passage vectors.
        filter: How tokens were chosen that are stored or, where all are stored, indexed: {"threshold"} or
            {"keep_fraction"}, and with all stored "indexed_from", the logit that chooses them.
        token_scale: Common scale of token codes; None until the first add fixes it.
        passage_scale: Common scale of passage codes; None until the first add fixes it.
        ann: Options of the ANN index.
        kbengine_version: Version that created the knowledge base.
        created_at: UTC, ISO 8601.
        format_version: See `FORMAT_VERSION`.
        quantiser: Of the index of token vectors: {"name", "kind", "n_bytes", "sha256"} of its file, and "drop_vectors":
            whether quantised vectors are stored in place of int8 ones; "nprobe" and "recall": how many lists are looked
            into, see `storage.probing`; empty without one.
        sparse: Of the sparse rows stored beside the vectors: {"model": fingerprint of the sparse encoder}; empty
            without them.
        store: How token vectors are stored: {"tokens": "all" | "indexed", "bits": 8 | 4, "code": {"name", "kind",
            "n_bytes", "sha256"} of the file of their 4-bit code}; empty in knowledge bases of earlier versions, which
            store the indexed ones in int8.
        passage_quantiser: Of the index of passage vectors, where shards of a cluster share one: {"name", "kind",
            "n_bytes", "sha256"} of its file, "nprobe" and "recall" as of `quantiser`; empty where each segment has
            lists of its own, or passages are scanned.
        passage_fingerprint: sha256 over what the stored vectors depend on: encoders that differ in their query side
            alone share it. Empty in knowledge bases of earlier versions.
        build: {"state": "building" | "complete", "position": {…} where an interrupted build goes on}.
    """

    encoder_name: str
    encoder_fingerprint: str
    d: int
    filter: Mapping[str, JSON] = field(default_factory=dict)
    token_scale: float | None = None
    passage_scale: float | None = None
    ann: Mapping[str, JSON] = field(default_factory=dict)
    quantiser: Mapping[str, JSON] = field(default_factory=dict)
    sparse: Mapping[str, JSON] = field(default_factory=dict)
    store: Mapping[str, JSON] = field(default_factory=dict)
    passage_quantiser: Mapping[str, JSON] = field(default_factory=dict)
    kbengine_version: str = ""
    created_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    format_version: int = FORMAT_VERSION
    passage_fingerprint: str = ""
    build: Mapping[str, JSON] = field(default_factory=lambda: {"state": "complete", "position": {}})

    def __post_init__(self) -> None:
        if not 1 <= self.d <= 65_536:
            raise InvalidOptionError(f"d is {self.d}; wanted a vector dimension of 1 to 65,536")
        if not self.encoder_fingerprint:
            raise InvalidOptionError("encoder_fingerprint is empty; wanted the fingerprint of the encoder")
        for name in ("token_scale", "passage_scale"):
            scale = getattr(self, name)
            if scale is not None and not 0 < scale < float("inf"):
                raise InvalidOptionError(f"{name} is {scale}; wanted a positive number or None")
        if self.build_state not in ("building", "complete"):
            raise InvalidOptionError(f"build state is {self.build_state!r}; wanted 'building' or 'complete'")
        self.ann_options  # noqa: B018 - refuses unknown options and bad values now, not at the first search

    @property
    def ann_options(self) -> AnnOptions:
        """The options of the ANN index; InvalidOptionError for an unknown one."""
        known = {entry.name for entry in dataclasses.fields(AnnOptions)}
        unknown = sorted(set(self.ann) - known)
        if unknown:
            raise InvalidOptionError(f"ANN options {unknown} are unknown; wanted some of {sorted(known)}")
        options: dict[str, Any] = dict(self.ann)
        return AnnOptions(**options)

    @property
    def quantiser_file(self) -> QuantiserFile | None:
        """The file of the quantiser, None when there is none."""
        return QuantiserFile.from_json(self.quantiser) if self.quantiser else None

    @property
    def probing(self) -> Probing | None:
        """How many lists of the quantiser a query looks into; None where it was not measured."""
        return Probing.from_json(self.quantiser)

    @property
    def passage_quantiser_file(self) -> QuantiserFile | None:
        """The file of the quantiser of passage vectors, None when there is none."""
        return QuantiserFile.from_json(self.passage_quantiser) if self.passage_quantiser else None

    @property
    def quantiser_files(self) -> tuple[QuantiserFile, ...]:
        """The files of all quantisers there are: of the index, of passages, and what vectors are stored in."""
        files = (self.quantiser_file, self.passage_quantiser_file, self.store_file)
        return tuple(file for file in files if file is not None)

    @property
    def passage_probing(self) -> Probing | None:
        """How many of its lists a query looks into; None without one."""
        return Probing.from_json(self.passage_quantiser)

    @property
    def drops_vectors(self) -> bool:
        """Whether only quantised token vectors are stored."""
        return bool(self.quantiser.get("drop_vectors"))

    @property
    def stores_all(self) -> bool:
        """Whether all tokens are stored, so that the filter only chooses which are indexed."""
        return self.store.get("tokens") == "all"

    @property
    def code_bits(self) -> int:
        """Bits of a stored dimension, 8 or on the average 4; of vectors that were dropped it says nothing."""
        return 4 if self.store.get("bits") == 4 else 8

    @property
    def search_facts(self) -> object:
        """What decides how segments are searched: equal as long as nothing has to be loaded anew."""
        return dict(self.ann), dict(self.quantiser), dict(self.passage_quantiser), dict(self.store), self.indexed_from

    @property
    def store_file(self) -> QuantiserFile | None:
        """The file of the code that token vectors are stored in; None for int8, and until the first ones are."""
        code = self.store.get("code")
        return QuantiserFile.from_json(code) if isinstance(code, dict) else None

    @property
    def indexed_from(self) -> float | None:
        """The filter logit from which on a search may start from a token; None: from every stored one."""
        threshold = self.filter.get("indexed_from")
        return float(threshold) if isinstance(threshold, int | float) else None

    @property
    def sparse_model(self) -> str | None:
        """The fingerprint of the sparse encoder, None when no sparse rows are stored."""
        model = self.sparse.get("model")
        return None if model is None else str(model)

    @property
    def build_state(self) -> str:
        """The build's state, `building` until `finish_build`."""
        return str(self.build.get("state"))

    @property
    def build_position(self) -> Mapping[str, JSON]:
        """Where an interrupted build goes on, as its last commit stored it."""
        position = self.build.get("position")
        return position if isinstance(position, dict) else {}


def write_settings(connection: Connection, values: KBSettings) -> None:
    """Write each field as a row of `settings`, in the caller's transaction."""
    for entry in dataclasses.fields(values):
        write_setting(connection, entry.name, getattr(values, entry.name))


def write_setting(connection: Connection, key: str, value: object) -> None:
    """Write the value as JSON to the row `key`, in the caller's transaction."""
    row = sealed({"key": key, "value": to_json(value, f"setting {key!r}"), "checksum": 0})
    statement = insert(schema.settings).values(row)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["key"], set_={"value": row["value"], "checksum": row["checksum"]}
        )
    )


def read_setting(connection: Connection, key: str) -> JSON:
    """Return the value stored under `key`, None when there is none."""
    row = connection.execute(select(schema.settings).where(schema.settings.c.key == key)).mappings().first()
    if row is None:
        return None
    check_row("settings", row)
    value: JSON = json.loads(row["value"])
    return value


def read_settings(connection: Connection, *, name: str) -> KBSettings:
    """Return the settings; FormatTooNewError when a newer kbengine wrote them, CorruptError when rows are missing.

    Args:
        connection: An open connection.
        name: The knowledge base's path, for messages.
    """
    values: dict[str, Any] = {}
    for row in connection.execute(select(schema.settings)).mappings():
        check_row("settings", row)
        values[row["key"]] = json.loads(row["value"])
    version = values.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FormatTooNewError(
            f"{name} has format {version}, this kbengine reads up to {FORMAT_VERSION}: install a newer kbengine"
        )
    fields = [entry.name for entry in dataclasses.fields(KBSettings)]
    for field_name in _LATER_FIELDS:
        values.setdefault(field_name, {})
    values = dict.fromkeys(_LATER, "") | values
    missing = [field_name for field_name in fields if field_name not in values]
    if missing:
        raise CorruptError(f"{name}/kb.sqlite: settings {missing} are missing; restore the file from a backup")
    return KBSettings(**{field_name: values[field_name] for field_name in fields})
