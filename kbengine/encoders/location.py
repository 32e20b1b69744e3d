"""Where encoders are: bundled with the package, or in a directory."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from kbengine.encoders.config import CONFIG_FILE
from kbengine.errors import EncoderError

DEFAULT_ENCODER = "minilm-phrase"


def find_encoder(name_or_path: str | Path) -> Path | None:
    """Return the directory of a bundled encoder or of one of ours; None where there is none, or another's model."""
    bundled = _bundled()
    if isinstance(name_or_path, str) and name_or_path in bundled:
        return bundled[name_or_path]
    path = Path(name_or_path).expanduser()
    return path if _is_encoder(path) else None


def _bundled() -> dict[str, Path]:
    models = resources.files("kbengine").joinpath("models")
    paths = (Path(str(entry)) for entry in sorted(models.iterdir(), key=lambda entry: entry.name))
    return {path.name: path for path in paths if _is_encoder(path)}


def _is_encoder(directory: Path) -> bool:
    """Return whether there is one of our encoders: readers, and others' models, have configurations as well."""
    try:
        config = json.loads((directory / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "architecture" in config


def locate_encoder(name_or_path: str | Path) -> tuple[str, Path]:
    """Return a model's name, under which `Encoder.load` finds it again, and its directory.

    Raises:
        EncoderError: there is none.
    """
    names = _bundled()
    if isinstance(name_or_path, str) and name_or_path in names:
        return name_or_path, names[name_or_path]
    directory = Path(name_or_path).expanduser()
    if directory.is_dir():
        return str(directory.resolve()), directory
    raise EncoderError(
        f"there is no encoder {str(name_or_path)!r}: it is neither bundled (those are: {', '.join(names) or 'none'}) "
        f"nor a directory ({directory.absolute()}); give one of these"
    )
