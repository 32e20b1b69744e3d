"""Files of each kind, made here, and the service that takes them."""

from tests.integrations.documents.made_files import book, damaged, paper, scan, word_file
from tests.test_docs import bases
from tests.web.conftest import built_kb, encoder, kb_path, make_service, service

__all__ = [
    "bases", "book", "built_kb", "damaged", "encoder", "kb_path", "make_service", "paper", "scan", "service",
    "word_file",
]  # fmt: skip
