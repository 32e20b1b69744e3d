"""The job that backs up the knowledge base: one commit as an archive to download."""

from __future__ import annotations

import os
import shutil
import tarfile
from typing import TYPE_CHECKING

from storage.backup import back_up
from web.jobs.job import Outcome, ResultFile

if TYPE_CHECKING:
    from web.engine import Engine
    from web.jobs.context import JobContext

ARCHIVE_TYPE = "application/x-tar"
FOLDER_NAME = "backups"
"""What unpacking the archive makes, for `kbengine restore`."""


def back_up_kb(engine: Engine, context: JobContext) -> Outcome:
    """Back up the newest commit while queries and changes go on; after an interruption it begins again.

    Raises:
        CorruptError: the knowledge base is damaged.
        StorageFullError: no space: the archive needs as much as the knowledge base has, while it is made twice that.
    """
    folder = context.folder / FOLDER_NAME
    shutil.rmtree(folder, ignore_errors=True)
    try:
        report = back_up(engine.knowledge_base.path, folder, stage=context.progress)
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "writer.lock")
        with context.result.open("wb") as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                for number, path in enumerate(files, start=1):
                    archive.add(path, f"{FOLDER_NAME}/{path.relative_to(folder)}")
                    context.progress("packing files", number, len(files))
            file.flush()
            os.fsync(file.fileno())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    name = f"backup-{report.generation}.tar"
    facts = {"generation": report.generation, "files": report.files, "bytes": report.n_bytes}
    return Outcome(facts, ResultFile(name, ARCHIVE_TYPE))
