"""The log of a run: one JSON object a line, and TensorBoard events on request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from kbengine.errors import CorruptError, MissingExtraError
from storage.durable import write_durably

LOG_FILE = "log.jsonl"
EVENTS_FOLDER = "tensorboard"


class Journal(AbstractContextManager["Journal"]):
    """Appends records to `log.jsonl`; a resumed run first drops what was logged after its checkpoint.

    A process that is not the main one passes `directory=None` and writes nothing.
    """

    def __init__(self, directory: Path | None, *, after_step: int, tensorboard: bool) -> None:
        """Open the log.

        Raises:
            MissingExtraError: TensorBoard is wanted and not installed.
        """
        self._file = None
        self._events: Any = None
        if directory is None:
            return
        if tensorboard:
            self._events = _event_writer(directory / EVENTS_FOLDER, after_step)
        path = directory / LOG_FILE
        kept = [record for record in read_log(directory) if record["step"] <= after_step] if after_step else []
        write_durably(path, [(json.dumps(record) + "\n").encode() for record in kept], replace=True)
        self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Append one record; its numbers become TensorBoard scalars `KIND/NAME`."""
        if self._file is None:
            return
        self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self._file.flush()
        if self._events is not None:
            for name, value in _flat(values):
                self._events.add_scalar(f"{kind}/{name}", value, step)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        if self._events is not None:
            self._events.close()


def read_log(directory: Path) -> list[dict[str, Any]]:
    """Return the records of a run's log, oldest first; none where there is no log. A torn last line is left out.

    Raises:
        CorruptError: a line before the last is not JSON.
    """
    path = directory / LOG_FILE
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except ValueError as e:
            if number == len(lines):
                break
            raise CorruptError(f"{path}:{number} is not JSON; remove the line, it is a log only") from e
    return records


def _event_writer(directory: Path, after_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as e:
        raise MissingExtraError.of("TensorBoard logging", "tensorboard", "training") from e
    return SummaryWriter(str(directory), purge_step=after_step + 1 if after_step else None)


def _flat(values: Mapping[str, Any]) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += [(f"{name}.{inner}", number) for inner, number in _flat(value)]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append((name, float(value)))
    return found
