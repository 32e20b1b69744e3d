"""The commands `backup` and `restore`."""

from __future__ import annotations

from pathlib import Path

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option, kb_option, option


@click.command()
@click.argument("folder")
@kb_option
@option("--keep", int, "Keep so many backups in the folder, the newest; by default all.")
@json_option
def backup(folder: str, kb: Path, keep: int | None, as_json: bool) -> None:
    """Add a backup of the newest commit to FOLDER, while others read and write.

    What earlier backups in it have is not copied again: the database is, and segments that are new. FOLDER may be the
    address of an object store, such as s3://bucket/my-kb, with the package for its kind installed (s3fs).

    \b
    Example: kbengine backup my-backups --kb my-kb
    """
    from kbengine.progress import Stages, progress_for_terminal
    from storage.backup import back_up

    with progress_for_terminal() as progress:
        report = back_up(kb, folder, keep=keep, stage=Stages(progress))
    standard_output(as_json=as_json).facts(
        {
            "generation": report.generation,
            "files": report.files,
            "bytes": report.n_bytes,
            "bytes_written": report.new_bytes,
        }
    )


@click.command()
@click.argument("folder")
@kb_option
@option("--generation", int, "Restore the backup of this commit; by default the newest.")
@json_option
def restore(folder: str, kb: Path, generation: int | None, as_json: bool) -> None:
    """Make the knowledge base --kb, which is not there yet, of a backup in FOLDER.

    \b
    Example: kbengine restore my-backups --kb my-kb-again
    """
    from kbengine.progress import Stages, progress_for_terminal
    from storage.backup import restore as restore_kb

    with progress_for_terminal() as progress:
        report = restore_kb(folder, kb, generation=generation, stage=Stages(progress))
    standard_output(as_json=as_json).facts(
        {"generation": report.generation, "files": report.files, "bytes": report.n_bytes}
    )
