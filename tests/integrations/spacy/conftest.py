"""The knowledge base that entities are linked to."""

from tests.test_docs import bases
from tests.web.conftest import built_kb, encoder

__all__ = ["bases", "built_kb", "encoder"]
