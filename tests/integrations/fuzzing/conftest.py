"""The service that is fuzzed: the one of the tests of `web`."""

from tests.web.conftest import built_kb, encoder, kb_path, make_service, service

__all__ = ["built_kb", "encoder", "kb_path", "make_service", "service"]
