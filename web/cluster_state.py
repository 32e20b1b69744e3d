"""The folder of a cluster's service: what an older kbengine kept a folder higher is taken over, or told of."""

from __future__ import annotations

from pathlib import Path

from storage.durable import copy_durably
from web.jobs.store import FOLDER_NAME
from web.keys import KEY_FILE


def take_over(folder: Path) -> list[str]:
    """Take over API keys that an older kbengine kept in the folder above; return what a person should know of it.

    They are copied: a service of the older one may run still. Its jobs are left to it.

    Args:
        folder: of the service; keys that are there already stay.
    """
    said: list[str] = []
    older = folder.parent
    if (older / KEY_FILE).is_file() and not (folder / KEY_FILE).exists():
        copy_durably(older / KEY_FILE, folder / KEY_FILE, mode=0o600)
        said.append(
            f"API keys of an older kbengine were copied from {older / KEY_FILE} to {folder}; remove that file when no "
            "service of the older one runs"
        )
    jobs = older / FOLDER_NAME
    if jobs.is_dir() and any(jobs.iterdir()):
        said.append(
            f"jobs of an older kbengine are in {jobs}, which this one does not look at; to have their results, stop "
            f"all services, move them to {folder / FOLDER_NAME} and start again, or remove them"
        )
    return said
