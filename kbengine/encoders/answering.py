"""Which encoder answers: the one that is named, the one bundled for the task, or the one that is open.

Beside a bundled encoder lie small changes of it, tuned for single tasks, in the layout of encoders that are tuned for a
knowledge base (`storage.tuned_files`). One belongs to a task when its record says so.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kbengine.encoders.location import find_encoder
from kbengine.encoders.tuned_encoders import TunedEncoders
from kbengine.encoders.tuned_info import TunedInfo, tuned_infos
from kbengine.errors import UnknownEncoderError
from storage.tuned_files import list_tuned, read_tuned

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from kbengine.inputs import Task
    from storage.settings import KBSettings


def bundled_beside(base: str) -> list[TunedInfo]:
    """Return what is known of the encoders that lie beside the one of a name or directory, by name.

    Raises:
        CorruptError: a record is not what was written.
    """
    directory = find_encoder(base)
    return [] if directory is None else tuned_infos(directory)


def has_tuned(path: Path, base: str, name: str) -> bool:
    """Tell whether a tuned encoder is called so: stored in the knowledge base, or bundled beside its encoder `base`."""
    return name in list_tuned(path) or name in [info.name for info in bundled_beside(base)]


def fingerprint_for(path: Path, settings: KBSettings, name: str | None, task: Task) -> str:
    """Return the fingerprint of the encoder that answers the task where `name` is asked for, without loading any.

    Raises:
        UnknownEncoderError: there is none of the name.
    """
    bundled = bundled_beside(settings.encoder_name)
    if name is None:
        return next((info.fingerprint for info in bundled if task in info.tasks), settings.encoder_fingerprint)
    if name not in list_tuned(path):
        if name == settings.encoder_name:
            return settings.encoder_fingerprint
        for info in bundled:
            if info.name == name:
                return info.fingerprint
    return str(read_tuned(path, name).facts["fingerprint"])


class AnsweringEncoders:
    """The encoders that one knowledge base can be asked with; usable from several threads at once."""

    def __init__(self, path: Path, base: Encoder, *, always: str | None = None) -> None:
        """Take the knowledge base's directory and its open encoder; `always` names the one that answers every task."""
        self._path = path
        self._base = base
        self._always = always
        self._stored = TunedEncoders(path, base)
        self._bundled = None if base.directory is None else TunedEncoders(base.directory, base)

    @cached_property
    def _by_task(self) -> dict[str, str]:
        return {task: info.name for info in self._bundled_infos for task in info.tasks}

    def name_for(self, name: str | None, task: Task | None = None) -> str | None:
        """Return the name of the encoder that answers the task where `name` is asked for; None is the open one."""
        name = name or self._always or (self._by_task.get(task) if task else None)
        return None if name is None or self._is_open_one(name) else name

    def names(self) -> list[str]:
        """Return the names that may be asked for: those stored, those bundled for tasks, and the open one's.

        An encoder that is open from a directory has no name of this kind.
        """
        own = [self._base.name] if Path(self._base.name).name == self._base.name else []
        return list(dict.fromkeys([*list_tuned(self._path), *(info.name for info in self._bundled_infos), *own]))

    def get(self, name: str | None) -> Encoder:
        """Return the encoder of a name as it is stored now, tuned for it or bundled; None: the open one.

        Raises:
            UnknownEncoderError: there is none of the name.
            EncoderMismatchError: it was tuned from another encoder than the open one.
            CorruptError: its files are not what was written.
        """
        if name is None or self._is_open_one(name):
            return self._base
        try:
            return self._stored.get(name)
        except UnknownEncoderError as error:
            if self._bundled is not None and name in [info.name for info in self._bundled_infos]:
                return self._bundled.get(name)
            names = ", ".join(self.names()) or "none"
            raise UnknownEncoderError(
                f"{self._path} has no tuned encoder {name!r}, it has {names}; name one of these, or tune it"
            ) from error

    @cached_property
    def _bundled_infos(self) -> list[TunedInfo]:
        found = [] if self._base.directory is None else tuned_infos(self._base.directory)
        return [info for info in found if info.base_fingerprint == self._base.fingerprint]

    def _is_open_one(self, name: str) -> bool:
        return name == self._base.name and name not in list_tuned(self._path)
