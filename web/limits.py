"""How much one request may ask; every limit is inclusive: n is accepted, n + 1 refused."""

from __future__ import annotations

from kbengine.search.query import MAX_K
from storage.conditions import MAX_FILTER_CHARS

QUERY_BODY_BYTES = 1 << 20
"""Body of a query."""
BULK_BODY_BYTES = 64 << 20
"""Body of a batch, of documents, of a KILT stream."""
UPLOAD_BYTES = 1 << 30
"""Body of a job: an upload, a table."""
DIRECT_BYTES = 1 << 18
"""Documents that are added while the caller waits, for about five seconds at most; larger bodies become a job."""
TEXT_CHARS = 16_000
"""Each text of a query: question, subject, relation, context, turn."""
ANNOTATED_CHARS = 4_000_000
"""A text to annotate; one that takes longer than the deadline is streamed."""
FILTER_CHARS = MAX_FILTER_CHARS
"""A filter over the fields of documents."""
ADDRESS_FILTER_CHARS = 500
"""A filter in an address, encoded up to twelve times as long: servers take some thousand bytes."""
TURNS = 64
"""Turns of a dialogue."""
SPANS = 64
"""Mentions of one entity-linking request."""
K = MAX_K
"""Answers wanted."""
BATCH = 256
"""Queries of one batch."""
DOCUMENTS = 1000
"""Documents of one request, added or deleted."""
ALIASES = 1000
"""Other names of one document in one request."""
PAGE_ITEMS = 200
"""Items of one page of a listing."""
ID_CHARS = 512
"""A document's id, a batch item's id, an idempotency key's 255 apart."""
RELATION_CHARS = 300
"""Each relation of an address: all that may be there stay under the 64 KiB that servers take of one."""
TITLE_CHARS = 2_000
"""A document's title, or an alias."""
IDEMPOTENCY_KEY_CHARS = 255
WORDS_CHARS = 500
"""Words that documents are looked for by: they stand in the address, which is bounded."""
TOKEN_CHARS = 4096
"""A page token."""
