"""A whole training as options: data, model, losses, loop; from a TOML file, the command line, or both."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from kbengine.encoders.checkpoint import WEIGHTS_DTYPES, WeightsDType
from kbengine.errors import InvalidOptionError
from kbengine.learning.loop.options import LoopOptions, from_mapping, require, require_count
from kbengine.learning.phrases.development import DevelopmentOptions
from kbengine.learning.phrases.initial import ModelOptions
from kbengine.learning.phrases.phrase_task import LossOptions

HardNegatives = Literal["none", "bm25", "same-phrase"]
HARD_NEGATIVES: tuple[HardNegatives, ...] = get_args(HardNegatives)

R = TypeVar("R")


@dataclass(frozen=True)
class DataSection:
    """What is trained on.

    Attributes:
        train: Files of training rows.
        dev: Files of development rows; none: no development score, the last weights are kept.
        pages: The corpus that KILT rows point into.
        exclude_pages: A file of document ids, one a line, whose text must not be trained on.
        max_passages: Gold passages of one KILT row that become examples.
        as_questions: Zero-shot RE rows as questions.
        hard_negatives: Passages to mine for each example: "bm25" (near the query, without its answer), "same-phrase"
            (with the answer, of another document), "none".
        n_hard_negatives: How many for each.
        adapt: A corpus whose cloze questions are trained on too.
        questions_per_document: Cloze questions of one document at most.
        link_questions: Whether mentions of other documents are among them; the corpus is then read twice.
        reader: Directory of the cross-encoder to distil from.
        similar_to: The model whose passage vectors' similarities are kept (`losses.similarity`), named as `model.init`
            is; None: the initial one.
        limit: Use at most so many training examples, drawn with the loop's seed; None: all.
    """

    train: tuple[Path, ...] = ()
    dev: tuple[Path, ...] = ()
    pages: tuple[Path, ...] = ()
    exclude_pages: Path | None = None
    max_passages: int = 1
    as_questions: bool = False
    hard_negatives: HardNegatives = "none"
    n_hard_negatives: int = 1
    adapt: tuple[Path, ...] = ()
    questions_per_document: int = 4
    link_questions: bool = False
    reader: Path | None = None
    similar_to: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("train", "dev", "pages", "adapt"):
            object.__setattr__(self, name, tuple(Path(each) for each in getattr(self, name)))
        for name in ("exclude_pages", "reader"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, Path(getattr(self, name)))
        for name in ("max_passages", "n_hard_negatives", "questions_per_document"):
            require_count(name, getattr(self, name))
        if self.limit is not None:
            require_count("limit", self.limit)
        wanted = f"one of {', '.join(HARD_NEGATIVES)}"
        require(self.hard_negatives in HARD_NEGATIVES, "hard_negatives", self.hard_negatives, wanted)


@dataclass(frozen=True)
class EncoderRecipe:
    """Everything that `kbengine train` needs to know.

    Attributes:
        data: Files.
        model: What to begin with.
        losses: What is minimised.
        loop: How.
        development: How models are compared.
        weights: What the trained weights are stored in.
    """

    data: DataSection = field(default_factory=DataSection)
    model: ModelOptions = field(default_factory=ModelOptions)
    losses: LossOptions = field(default_factory=LossOptions)
    loop: LoopOptions = field(default_factory=LoopOptions)
    development: DevelopmentOptions = field(default_factory=DevelopmentOptions)
    weights: WeightsDType = "int8"

    def __post_init__(self) -> None:
        require(self.weights in WEIGHTS_DTYPES, "weights", self.weights, f"one of {', '.join(WEIGHTS_DTYPES)}")
        if self.losses.hard_negatives and self.data.hard_negatives == "none":
            # DPR's files bring their own.
            return
        if self.data.hard_negatives != "none" and not self.losses.hard_negatives:
            raise InvalidOptionError(
                f"data.hard_negatives is {self.data.hard_negatives!r} but losses.hard_negatives is off: they would be "
                "mined for nothing; switch on both or none"
            )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def read_recipe(kind: type[R], path: Path | None, overrides: Sequence[tuple[str, Any]] = ()) -> R:
    """Return a recipe of a TOML file with single options replaced; paths in the file count from its folder.

    Args:
        kind: `EncoderRecipe`, or another dataclass of sections.
        path: the file, or None for the defaults.
        overrides: (dotted name, value) pairs such as ("loop.optimizer.learning_rate", 1e-4), applied in order.

    Raises:
        InvalidOptionError: the file is no TOML, or an option is unknown or has a value it may not have.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
            raise InvalidOptionError(f"cannot read the recipe {path}: {e}") from e
        if isinstance(values.get("data"), dict):
            values["data"] = {name: _from_folder(value, path.parent, name) for name, value in values["data"].items()}
    for name, value in overrides:
        _put(values, name.split("."), value, name)
    return from_mapping(kind, values, "the recipe" if path is None else str(path))


def parse_override(text: str) -> tuple[str, Any]:
    """Return the (dotted name, value) of `name=value`; the value is TOML, or else a text as it stands.

    Raises:
        InvalidOptionError: there is no `=`.
    """
    name, found, value = text.partition("=")
    if not found or not name.strip():
        raise InvalidOptionError(f"{text!r} sets nothing, wanted section.option=value")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def with_seed(recipe: EncoderRecipe, seed: int) -> EncoderRecipe:
    """Return the recipe with another seed."""
    return replace(recipe, loop=replace(recipe.loop, seed=seed))


_PATHS = frozenset({"train", "dev", "pages", "exclude_pages", "adapt", "reader"})


def _from_folder(value: Any, folder: Path, name: str) -> Any:
    if name not in _PATHS:
        return value
    if isinstance(value, str):
        return str(folder / value)
    return [str(folder / each) for each in value] if isinstance(value, list) else value


def _put(values: dict[str, Any], path: Sequence[str], value: Any, name: str) -> None:
    *sections, last = path
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InvalidOptionError(f"{name} names no option: {section} is a value, not a section")
        values = inner
    values[last] = value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
