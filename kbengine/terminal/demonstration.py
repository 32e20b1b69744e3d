"""The demo: a bundled corpus becomes a knowledge base, one query of each task is answered, the next steps are named."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import DEFAULT_FILTER
from kbengine.errors import KBError
from kbengine.knowledge_base import KnowledgeBase
from kbengine.progress import progress_for_terminal

if TYPE_CHECKING:
    from kbengine.terminal.console import Output

SHOWN_QUERIES = ("demo-question-1", "demo-slot-filling-1", "demo-entity-linking-3", "demo-dialogue-1")


def demo_queries() -> list[dict[str, Any]]:
    """Return the bundled queries: KILT task records with a `task` field."""
    text = (files("kbengine") / "demo" / "queries.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def run_demo(path: Path, output: Output, ask: Callable[[KnowledgeBase, Any, str], None]) -> None:
    """Build the bundled knowledge base in `path` unless it is there, ask it one query of each task, name what is next.

    Args:
        path: where the knowledge base is or will be.
        output: what is written to.
        ask: writes the answers of the knowledge base to one query, given its task and its text.

    Raises:
        KBError: the directory holds something else, or there is no space.
    """
    from kbengine.encoders.encoder import Encoder

    encoder = Encoder.load("minilm-phrase")
    if not _is_complete(path):
        with as_file(files("kbengine") / "demo" / "corpus.jsonl") as corpus, progress_for_terminal() as progress:
            report = build(
                CorpusOptions((corpus,)), path, encoder=encoder, filter_options=DEFAULT_FILTER, progress=progress
            )
        if not output.as_json:
            output.line(
                f"built {path}: {report.documents:,} documents, {report.passages:,} passages, "
                f"{report.stored_tokens:,} phrase vectors in {report.elapsed_s:.1f} s"
            )
    records = {record["id"]: record for record in demo_queries()}
    with KnowledgeBase.open(path, encoder) as knowledge_base:
        for query_id in SHOWN_QUERIES:
            record = records[query_id]
            if not output.as_json:
                output.line()
                output.line(f"── {record['task']} " + "─" * (70 - len(record["task"])))
                for line in record["input"].split("\n"):
                    output.line(f"» {line}")
            ask(knowledge_base, record["task"], record["input"])
    if not output.as_json:
        _say_what_is_next(path, output)


def _is_complete(path: Path) -> bool:
    """Tell whether a finished knowledge base is there already; an interrupted one is resumed by building again."""
    from storage.reader import KBReader

    if not path.exists():
        return False
    try:
        KBReader.open(path).close()
    except KBError as e:
        if e.code in ("build_incomplete", "not_a_knowledge_base"):
            return False
        raise
    return True


def _own_command() -> str:
    """Return what to type for this program: its name, or its path where the name alone would not be found."""
    return "kbengine" if shutil.which("kbengine") else os.path.relpath(Path(sys.executable).with_name("kbengine"))


def _say_what_is_next(path: Path, output: Output) -> None:
    command = _own_command()
    output.line()
    output.line("try next:")
    output.line(f'  {command} query --kb {path} "Who composed the music for Spirited Away?" --explain')
    output.line(f'  {command} query --kb {path} --task slot-filling "Frida Kahlo [SEP] spouse"')
    output.line(f"  {command} info --kb {path}")
    output.line(f"  {command} build YOUR-FOLDER-OF-TEXT --kb my-kb      # .txt, .md, .html, .pdf, or JSON lines")
