"""Where readers are: bundled with the package, or in a directory."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from kbengine.errors import EncoderError
from kbengine.reading.checkpoint_files import is_reader

DEFAULT_READER = "minilm-reader"


def find_reader(name_or_path: str | Path) -> Path:
    """Return the directory of a bundled reader by its name, also where it was taken for a path, or of one elsewhere.

    Raises:
        EncoderError: there is none.
    """
    bundled = bundled_readers()
    if (name := str(name_or_path)) in bundled:
        return bundled[name]
    directory = Path(name_or_path).expanduser()
    if is_reader(directory):
        return directory
    raise EncoderError(
        f"there is no reader {str(name_or_path)!r}: it is neither bundled (those are: {', '.join(bundled) or 'none'}) "
        f"nor a directory that 'kbengine train reader' made ({directory.absolute()}); give one of these"
    )


def has_reader(name_or_path: str | Path) -> bool:
    """Return whether there is a reader of that name, or in that directory."""
    return str(name_or_path) in bundled_readers() or is_reader(Path(name_or_path).expanduser())


def bundled_readers() -> dict[str, Path]:
    """Return the directories of the readers that come with the package, by name."""
    models = resources.files("kbengine").joinpath("models")
    paths = (Path(str(entry)) for entry in sorted(models.iterdir(), key=lambda entry: entry.name))
    return {path.name: path for path in paths if is_reader(path)}
