"""`kbengine encoders`: the encoders tuned for a knowledge base, listed, exported and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option, kb_option, option


@click.group()
def encoders() -> None:
    """List, export and delete the encoders tuned for a knowledge base; `kbengine tune` makes them.

    \b
    Example:
      kbengine encoders list --kb my-kb
      kbengine encoders delete linker --kb my-kb
    """


@encoders.command(name="list")
@kb_option
@json_option
def list_(kb: Path, as_json: bool) -> None:
    """List them: what each was tuned for, from what, and how large it is; those bundled for tasks come last.

    \b
    Example: kbengine encoders list --kb my-kb
    """
    from kbengine.encoders.answering import bundled_beside
    from kbengine.encoders.tuned_info import tuned_infos
    from storage.reader import KBReader

    with KBReader.open(kb) as reader:
        own = reader.settings.encoder_name
    output = standard_output(as_json=as_json)
    found = tuned_infos(kb)
    names = [info.name for info in found]
    found += [info for info in bundled_beside(own) if info.name not in names]
    if as_json:
        for info in found:
            output.record(info.to_json())
        return
    columns = ("name", "tasks", "loss", "parameters", "bytes", "from", "fingerprint", "created at")
    output.table(
        columns,
        [
            (
                info.name,
                ", ".join(info.tasks),
                info.report.get("loss"),
                info.parameters,
                f"{info.n_bytes:,}",
                info.base,
                info.fingerprint[:12],
                info.created_at,
            )
            for info in found
        ],
    )


@encoders.command()
@click.argument("name")
@kb_option
@json_option
def delete(name: str, kb: Path, as_json: bool) -> None:
    """Delete one; a service that answers with it says so from the next request on.

    \b
    Example: kbengine encoders delete linker --kb my-kb
    """
    from storage.database import database_path
    from storage.tuned_files import delete_tuned

    database_path(kb)
    delete_tuned(kb, name)
    standard_output(as_json=as_json).facts({"deleted": name})


@encoders.command()
@click.argument("name")
@option("--out", Path, "Make this model directory.", required=True)
@option("--weights", ("int8", "float16", "float32"), "Store the weights in this number type.", default="int8")
@kb_option
@json_option
def export(name: str, out: Path, weights: Any, kb: Path, as_json: bool) -> None:
    """Write one as a model directory of its own, which opens every knowledge base of the same passage side.

    \b
    Example: kbengine encoders export linker --kb my-kb --out linker
    """
    from kbengine.encoders.tuned_encoders import export_tuned
    from kbengine.knowledge_base import KnowledgeBase
    from storage.tuned_files import list_tuned

    with KnowledgeBase.open(kb) as knowledge_base:
        base = knowledge_base.encoder
        beside = base.directory
        is_bundled = beside is not None and name not in list_tuned(kb) and name in list_tuned(beside)
        info = export_tuned(beside if beside and is_bundled else kb, name, out, base=base, dtype=weights)
    standard_output(as_json=as_json).facts({"exported": info.name, "directory": str(out)})
