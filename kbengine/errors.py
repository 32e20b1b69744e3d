"""The errors of kbengine, re-exported from storage and continued for encoders, queries and corpora.

KBError                        (storage.errors draws its part of the tree)
├── UsageError
│   ├── QueryError             a query cannot be asked as it is
│   │   ├── EmptyQueryError    nothing to encode
│   │   └── QueryTooLongError  more tokens than the encoder reads
│   └── CorpusError            a corpus cannot be read as it is (exit 1)
├── StateError
│   └── EncoderError           a model directory is missing, incomplete or of another kind
├── CorruptError
└── StorageFullError
"""

from __future__ import annotations

from storage.errors import (
    BuildIncompleteError,
    CorruptError,
    DuplicateAliasError,
    DuplicateDocumentError,
    EncoderMismatchError,
    FormatTooNewError,
    InvalidOptionError,
    KBError,
    KnowledgeBaseExistsError,
    LockedError,
    NotAKnowledgeBaseError,
    PlatformError,
    StateError,
    StorageFullError,
    UnknownAliasError,
    UnknownDocumentError,
    UsageError,
)


class QueryError(UsageError):
    """A query cannot be asked as it is."""

    code = "bad_query"


class EmptyQueryError(QueryError):
    """A query has no text to encode."""

    code = "empty_query"


class QueryTooLongError(QueryError):
    """A query has more tokens than the encoder reads, and cutting it was not asked for."""

    code = "query_too_long"


class CorpusError(UsageError):
    """A corpus, or one record of it, cannot be read as it is."""

    code = "bad_corpus"
    exit_code = 1


class EncoderError(StateError):
    """A model directory is missing, incomplete or of another kind."""

    code = "bad_encoder"


__all__ = [
    "BuildIncompleteError",
    "CorpusError",
    "CorruptError",
    "DuplicateAliasError",
    "DuplicateDocumentError",
    "EmptyQueryError",
    "EncoderError",
    "EncoderMismatchError",
    "FormatTooNewError",
    "InvalidOptionError",
    "KBError",
    "KnowledgeBaseExistsError",
    "LockedError",
    "NotAKnowledgeBaseError",
    "PlatformError",
    "QueryError",
    "QueryTooLongError",
    "StateError",
    "StorageFullError",
    "UnknownAliasError",
    "UnknownDocumentError",
    "UsageError",
]
