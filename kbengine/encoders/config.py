"""What a model directory's `config.json` says: architecture, backbone, input lengths. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from kbengine.errors import EncoderError

Architecture = Literal["shared-query", "three-tower"]
ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)
CONFIG_FILE = "config.json"

JSON = dict[str, Any]
S = TypeVar("S")


@dataclass(frozen=True)
class BackboneConfig:
    """The shape of the BERT stack, under Hugging Face's names."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"

    def __post_init__(self) -> None:
        _require_positive(self, "backbone.", except_for=("hidden_act",))
        if self.hidden_size % self.num_attention_heads:
            raise EncoderError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}; correct config.json"
            )
        if self.hidden_act != "gelu":
            raise EncoderError(f"hidden_act is {self.hidden_act!r}, only 'gelu' is supported; use another model")


@dataclass(frozen=True)
class QueryLimits:
    """The most tokens each kind of query may have, [CLS] and [SEP] included."""

    question: int = 48
    slot_filling: int = 48
    entity_linking: int = 128
    dialogue: int = 96

    def __post_init__(self) -> None:
        _require_positive(self, "max_query_tokens.")
        # [CLS] m [SEP] [ m ] [SEP] with a one-token mention is the longest shortest input.
        for name, least in (("question", 3), ("slot_filling", 5), ("entity_linking", 7), ("dialogue", 3)):
            if getattr(self, name) < least:
                raise EncoderError(f"max_query_tokens.{name} is {getattr(self, name)}, wanted {least} or more")


@dataclass(frozen=True)
class EncoderConfig:
    """A whole `config.json`, checked.

    `passage_vector` is "none" for models without a third signal, else it starts with "mean". `passage_input` is a
    description for people.
    """

    architecture: Architecture
    backbone: BackboneConfig
    uncased: bool = True
    max_passage_tokens: int = 176
    max_title_tokens: int = 20
    max_query_tokens: QueryLimits = field(default_factory=QueryLimits)
    max_phrase_tokens: int = 20
    passage_token_type: int = 0
    passage_input: str = ""
    passage_vector: str = "mean"

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise EncoderError(f"architecture is {self.architecture!r}, wanted one of {', '.join(ARCHITECTURES)}")
        for name in ("max_passage_tokens", "max_phrase_tokens"):
            require_int(f"{name}", getattr(self, name), 1)
        require_int("max_title_tokens", self.max_title_tokens, 0)
        require_int("passage_token_type", self.passage_token_type, 0)
        if not isinstance(self.uncased, bool):
            raise EncoderError(f"uncased is {self.uncased!r}, wanted true or false; correct config.json")
        if self.passage_token_type >= self.backbone.type_vocab_size:
            raise EncoderError(
                f"passage_token_type is {self.passage_token_type}, the backbone has types 0 to "
                f"{self.backbone.type_vocab_size - 1}; correct config.json"
            )
        # Three special tokens, the title, and at least two passage tokens, so that windows can overlap.
        if self.max_passage_tokens < self.max_title_tokens + 5:
            raise EncoderError(
                f"max_passage_tokens is {self.max_passage_tokens}, wanted {self.max_title_tokens + 5} or more "
                f"(title of {self.max_title_tokens} tokens, 3 special ones, 2 of text); correct config.json"
            )
        longest = max(self.max_passage_tokens, *asdict(self.max_query_tokens).values())
        if longest > self.backbone.max_position_embeddings:
            raise EncoderError(
                f"the longest input is {longest} tokens, the backbone has positions for "
                f"{self.backbone.max_position_embeddings}; correct config.json"
            )
        if self.passage_vector != "none" and not str(self.passage_vector).startswith("mean"):
            raise EncoderError(f"passage_vector is {self.passage_vector!r}, wanted 'mean…' or 'none'")

    @property
    def has_passage_vector(self) -> bool:
        """Whether passages and queries get a pooled vector; else it is all zeros."""
        return self.passage_vector != "none"

    @classmethod
    def from_json(cls, value: object) -> EncoderConfig:
        """Return the configuration in a parsed `config.json`; unknown and missing keys are refused.

        Raises:
            EncoderError: a key is unknown, missing, or its value is not what it may be.
        """
        return config_of(cls, value, "config.json")

    def to_json(self) -> JSON:
        """Return what `config.json` holds."""
        return asdict(self)


def config_of(kind: type[S], value: object, where: str) -> S:
    """Return the dataclass that parsed JSON holds, with those in it; unknown and missing keys are refused.

    Args:
        kind: a dataclass, which checks its values itself.
        value: the parsed JSON.
        where: what errors say that it stands in.

    Raises:
        EncoderError: a key is unknown, missing, or its value is not what it may be.
    """
    if not isinstance(value, Mapping):
        raise EncoderError(f"{where} holds {type(value).__name__}, wanted an object with named values")
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]  # the callers pass dataclasses only
    if unknown := sorted(set(value) - set(known)):
        raise EncoderError(
            f"{where} has unknown keys {', '.join(unknown)}; known are {', '.join(sorted(known))}: "
            "remove them, or use the kbengine that wrote it"
        )
    required = {name for name, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
    if missing := sorted(required - set(value)):
        raise EncoderError(f"{where} lacks {', '.join(missing)}; add what the model was trained with")
    types = get_type_hints(kind)
    return kind(
        **{
            name: config_of(types[name], each, f"{where}, {name}") if is_dataclass(types[name]) else each
            for name, each in value.items()
        }
    )


def _require_positive(options: object, prefix: str, *, except_for: tuple[str, ...] = ()) -> None:
    for f in fields(options):  # type: ignore[arg-type]  # the callers are dataclasses
        value = getattr(options, f.name)
        if f.name in except_for:
            continue
        if f.name == "layer_norm_eps":
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
                raise EncoderError(f"{prefix}{f.name} is {value!r}, wanted a small positive number")
        else:
            require_int(f"{prefix}{f.name}", value, 1)


def require_int(name: str, value: object, least: int) -> None:
    """Raise EncoderError unless the value is a whole number from `least` up."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise EncoderError(f"{name} is {value!r}, wanted a whole number from {least} up; correct config.json")
