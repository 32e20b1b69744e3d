"""What every part of the face has: the engine underneath, and what answers from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.tasks.answerer import Answerer

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase as Engine


class Opened:
    """An open knowledge base."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._answerer = Answerer(engine)
