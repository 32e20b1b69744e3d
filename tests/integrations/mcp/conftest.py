"""The knowledge base that assistants ask: the one of the tests of `web`."""

from tests.test_docs import bases
from tests.web.conftest import built_kb, encoder, kb_path, make_service, service

__all__ = ["bases", "built_kb", "encoder", "kb_path", "make_service", "service"]
