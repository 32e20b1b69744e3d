"""`kbengine export`: the documents of a knowledge base, or the passages that it finds for questions."""

from __future__ import annotations

import click
from click_default_group import DefaultGroup

from adapters.commands.open_domain import export_passages
from kbengine.terminal.maintenance_commands import export_documents


@click.group(cls=DefaultGroup, default="documents", default_if_no_args=True)
def export() -> None:
    """Write all documents, or the best passages of questions; `documents` may be left out.

    \b
    Examples:
      kbengine export --kb my-kb --out documents.jsonl.zst
      kbengine export passages nq-test.qa.csv --kb my-kb --out nq-test.passages.json
    """


export.add_command(export_documents)
export.add_command(export_passages)
