"""The knowledge base that is searched: a copy of a small one, and an empty one."""

import shutil

import pytest

from adapters.knowledge_base import KnowledgeBase
from tests.test_docs import bases
from tests.web.conftest import PAGES, built_kb, encoder, kb_path

__all__ = ["bases", "built_kb", "empty_kb", "encoder", "kb_path"]


@pytest.fixture(scope="session")
def empty_kb(built_kb, encoder, tmp_path_factory):
    """The directory of a knowledge base without documents; to be copied."""
    path = shutil.copytree(built_kb, tmp_path_factory.mktemp("haystack") / "kb")
    with KnowledgeBase.open(path, encoder=encoder) as kb:
        kb.delete([page["id"] for page in PAGES])
    return path
