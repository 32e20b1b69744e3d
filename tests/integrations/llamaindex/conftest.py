"""The knowledge base that is searched: the demo's of the documentation, and a small one."""

import pytest

from adapters.knowledge_base import KnowledgeBase
from tests.test_docs import bases
from tests.web.conftest import built_kb, encoder

__all__ = ["bases", "built_kb", "encoder", "kb"]


@pytest.fixture
def kb(built_kb, encoder):
    """A small knowledge base, open."""
    with KnowledgeBase.open(built_kb, encoder=encoder) as opened:
        yield opened
