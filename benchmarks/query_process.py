"""A process that asks one knowledge base what it is told to on standard input, a JSON object a line, and tells times.

`benchmarks.against_commit` runs it with the packages of one commit or another, so it uses nothing but what both have:
`KnowledgeBase.open` and `search` with plain questions.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def memory_bytes() -> dict[str, int]:
    """Return this process's anonymous and whole resident memory."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    fields = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return {name: int(fields[field].split()[0]) * 1024 for name, field in (("anonymous", "RssAnon"), ("all", "VmRSS"))}


class QueryProcess:
    """One open knowledge base."""

    def __init__(self) -> None:
        self._knowledge_base: Any = None

    def open(self, path: str) -> dict[str, float]:
        """Return the seconds that importing and opening take."""
        began = time.perf_counter()
        from kbengine.knowledge_base import KnowledgeBase

        imported = time.perf_counter()
        self._knowledge_base = KnowledgeBase.open(Path(path))
        return {"import_s": imported - began, "open_s": time.perf_counter() - imported}

    def single(self, texts: list[str]) -> dict[str, Any]:
        """Return the milliseconds of each question, asked one at a time, of the clock and of processors; and stages."""
        wall, processor, stages = [], [], []
        for text in texts:
            began, worked = time.perf_counter(), time.process_time()
            result = self._knowledge_base.search(text, k=10, truncate=True)
            wall.append((time.perf_counter() - began) * 1e3)
            processor.append((time.process_time() - worked) * 1e3)
            stages.append(dict(result.timings_ms))
        return {"wall_ms": wall, "processor_ms": processor, "stages_ms": stages}

    def batch(self, texts: list[str]) -> dict[str, float]:
        """Return the milliseconds a question of all asked at once."""
        began, worked = time.perf_counter(), time.process_time()
        self._knowledge_base.search(texts, k=10, truncate=True)
        wall, processor = time.perf_counter() - began, time.process_time() - worked
        return {"wall_ms": wall * 1e3 / len(texts), "processor_ms": processor * 1e3 / len(texts)}

    def memory(self) -> dict[str, int]:
        """Return the memory in use."""
        return memory_bytes()

    def facts(self) -> dict[str, int]:
        """Return what is stored."""
        info = self._knowledge_base.info()
        return {"documents": info.documents, "passages": info.passages, "stored_vectors": info.tokens_stored}


def main() -> None:
    """Answer every line until there are no more."""
    process = QueryProcess()
    for line in sys.stdin:
        given = json.loads(line)
        answer = getattr(process, given.pop("do"))(**given)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
