"""kbengine: a knowledge base whose only index is phrases.

>>> from kbengine import KnowledgeBase, Slot
>>> with KnowledgeBase.open(folder) as kb:
...     print(kb.ask(Slot("Marie Curie", "place of birth")).best.text)
Warsaw

Names are imported on first use: `import kbengine` takes a few milliseconds. Beside `kbengine.cli` this is the one place
that reaches up to the adapters. All errors are `KBError`s; `kbengine.errors` has them by name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kbengine.version import __version__

if TYPE_CHECKING:
    from adapters.knowledge_base import KnowledgeBase
    from adapters.tasks.answers import Answer, Evidence, TaskAnswer
    from kbengine.errors import KBError
    from kbengine.inputs import Dialogue, Mention, Question, Slot
    from kbengine.search.query import Weights
    from kbengine.search.results import Hit, SearchResult
    from kbengine.span import Span

_HOMES = {
    "adapters.knowledge_base": ("KnowledgeBase",),
    "kbengine.inputs": ("Question", "Slot", "Mention", "Dialogue"),
    "adapters.tasks.answers": ("TaskAnswer", "Answer", "Evidence"),
    "kbengine.search.results": ("SearchResult", "Hit"),
    "kbengine.search.query": ("Weights",),
    "kbengine.span": ("Span",),
    "kbengine.errors": ("KBError",),
}

__all__ = [
    "KnowledgeBase",
    "Question",
    "Slot",
    "Mention",
    "Dialogue",
    "TaskAnswer",
    "Answer",
    "Evidence",
    "SearchResult",
    "Hit",
    "Weights",
    "Span",
    "KBError",
    "__version__",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'kbengine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
