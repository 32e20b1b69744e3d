"""What a reader directory's `config.json` says: backbone and input lengths. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kbengine.encoders.config import BackboneConfig, QueryLimits, config_of, require_int
from kbengine.errors import EncoderError

READER_KIND = "cross-encoder-reader"


@dataclass(frozen=True)
class SharedEmbeddings:
    """Embeddings that a reader has in common with a bundled encoder, so that they are not stored twice.

    Attributes:
        encoder: The encoder's name.
        sha256: Of the decoded embeddings, hex: another encoder of that name is noticed.
    """

    encoder: str
    sha256: str

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, str) or not value:
                raise EncoderError(f"embeddings_of.{name} is {value!r}, wanted a text; correct config.json")


@dataclass(frozen=True)
class ReaderConfig:
    """A whole `config.json` of a reader, checked.

    Attributes:
        backbone: Shape of the BERT stack.
        uncased: Whether the tokenizer lowers its text.
        max_tokens: Of one input, special tokens included; longer passages are read in windows.
        max_title_tokens: Of the title that is read before the passage; 0 leaves titles out.
        max_query_tokens: Of each kind of query, special tokens included.
        max_answer_tokens: The longest answer.
        pair_size: Of the vectors that tell how well a first and a last token go together; 0: each is judged by itself.
        embeddings_of: The encoder whose embeddings are the reader's too; None where the reader has its own.
        kind: Always "cross-encoder-reader", so that no directory is taken for something it is not.
    """

    backbone: BackboneConfig
    uncased: bool = True
    max_tokens: int = 384
    max_title_tokens: int = 20
    max_query_tokens: QueryLimits = field(default_factory=lambda: QueryLimits(64, 64, 128, 128))
    max_answer_tokens: int = 20
    pair_size: int = 0
    embeddings_of: SharedEmbeddings | None = None
    kind: str = READER_KIND

    def __post_init__(self) -> None:
        if self.kind != READER_KIND:
            raise EncoderError(f"kind is {self.kind!r}, wanted {READER_KIND!r}; give a directory that holds a reader")
        for name, least in (("max_tokens", 1), ("max_title_tokens", 0), ("max_answer_tokens", 1), ("pair_size", 0)):
            require_int(name, getattr(self, name), least)
        if not isinstance(self.uncased, bool):
            raise EncoderError(f"uncased is {self.uncased!r}, wanted true or false; correct config.json")
        # The query with its two special tokens, the title and its [SEP], the last [SEP], and two passage tokens.
        longest_query = max(asdict(self.max_query_tokens).values())
        least_tokens = longest_query + self.max_title_tokens + 1 + 1 + 2
        if self.max_tokens < least_tokens:
            raise EncoderError(
                f"max_tokens is {self.max_tokens}, wanted {least_tokens} or more (a query of {longest_query} tokens, a "
                f"title of {self.max_title_tokens}, 2 separators, 2 of text); shorten the query or the title"
            )
        if self.max_tokens > self.backbone.max_position_embeddings:
            raise EncoderError(
                f"max_tokens is {self.max_tokens}, the backbone has positions for "
                f"{self.backbone.max_position_embeddings}; give at most that"
            )

    @classmethod
    def from_json(cls, value: object) -> ReaderConfig:
        """Return the configuration in a parsed `config.json`; unknown and missing keys are refused, `pair_size` aside.

        Raises:
            EncoderError: it is not a reader's, or a value is not what it may be.
        """
        if not isinstance(value, Mapping) or value.get("kind") != READER_KIND:
            seen = value.get("kind", "nothing") if isinstance(value, Mapping) else type(value).__name__
            raise EncoderError(
                f"config.json says kind {seen!r}, wanted {READER_KIND!r}; give a directory that 'kbengine train' made"
            )
        config = config_of(cls, {"pair_size": 0, **value, "embeddings_of": None}, "config.json of the reader")
        shared = value.get("embeddings_of")
        if shared is None:
            return config
        return replace(config, embeddings_of=config_of(SharedEmbeddings, shared, "config.json, embeddings_of"))

    def to_json(self) -> dict[str, Any]:
        """Return what `config.json` holds."""
        return asdict(self)
