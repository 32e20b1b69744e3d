"""The errors of kbengine, re-exported from storage and continued for encoders, queries and corpora.

KBError                        (storage.errors draws its part of the tree)
├── UsageError
│   ├── QueryError             a query cannot be asked as it is
│   │   ├── EmptyQueryError    nothing to encode
│   │   └── QueryTooLongError  more tokens than the encoder reads
│   ├── TaskInputError         a question, slot, mention or dialogue has not the form that its task wants
│   ├── CorpusError            a corpus cannot be read as it is (exit 1)
│   │   └── EmptyCorpusError   there is no document in it, or it is not there (exit 1)
│   ├── TrainingDataError      a file of training rows cannot be used as it is (exit 1)
│   ├── MissingExtraError      an optional package is not installed (exit 1)
│   └── OneMachineError        a cluster is asked for what a knowledge base on one machine does
├── StateError
│   ├── EncoderError           a model directory is missing, incomplete or of another kind
│   ├── TrainingError          a training run cannot begin, go on or end well
│   ├── MessageError           a message between processes of a cluster is not what it should be
│   └── ShardUnavailableError  a shard of a cluster does not answer
├── CorruptError
└── StorageFullError
"""

from __future__ import annotations

from typing import Self

from storage.errors import (
    BuildIncompleteError,
    CatalogUnavailableError,
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
    UnknownEncoderError,
    UnknownFeedbackError,
    UsageError,
)


class QueryError(UsageError):
    """A query cannot be asked as it is."""

    code = "bad_query"


class TaskInputError(UsageError):
    """A question, slot, mention or dialogue has not the form that its task wants."""

    code = "bad_task_input"


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


class EmptyCorpusError(CorpusError):
    """A corpus is not there, or holds no document."""

    code = "empty_corpus"


class TrainingDataError(UsageError):
    """A file of training rows, or all of its rows, cannot be used as it is."""

    code = "bad_training_data"
    exit_code = 1


class MissingExtraError(UsageError):
    """An optional package is not installed; the message says which command installs it."""

    code = "missing_extra"
    exit_code = 1

    @classmethod
    def of(cls, purpose: str, package: str, extra: str) -> Self:
        """Return the error for a purpose that needs a package, which belongs to an extra of this project."""
        return cls(
            f"{purpose} needs the package {package}, which is not installed; run: pip install {package} "
            f"(in a checkout pip install '.[{extra}]' installs all of its kind)"
        )


class OneMachineError(UsageError):
    """A cluster is asked for what only a knowledge base on one machine does."""

    code = "one_machine"

    @classmethod
    def of(cls, what: str) -> Self:
        """Return the error for something that a cluster does not do."""
        return cls(
            f"{what} is for a knowledge base on one machine, and this is a cluster; serve a directory with "
            "'kbengine serve --kb' for it"
        )


class EncoderError(StateError):
    """A model directory is missing, incomplete or of another kind."""

    code = "bad_encoder"


class TrainingError(StateError):
    """A training run cannot begin, go on or end well: its directory, its checkpoint or its loss is not right."""

    code = "bad_training"


class MessageError(StateError):
    """A message between processes of a cluster is not what it should be: damaged, too large, or of another kind."""

    code = "bad_message"


class ShardUnavailableError(StateError):
    """A shard of a cluster does not answer, on any of its replicas; `shard` is its name."""

    code = "shard_unavailable"

    def __init__(self, message: str, *, shard: str = "") -> None:
        super().__init__(message)
        self.shard = shard


__all__ = [
    "BuildIncompleteError",
    "CatalogUnavailableError",
    "CorpusError",
    "CorruptError",
    "DuplicateAliasError",
    "DuplicateDocumentError",
    "EmptyCorpusError",
    "EmptyQueryError",
    "EncoderError",
    "EncoderMismatchError",
    "FormatTooNewError",
    "InvalidOptionError",
    "KBError",
    "KnowledgeBaseExistsError",
    "LockedError",
    "MessageError",
    "MissingExtraError",
    "NotAKnowledgeBaseError",
    "OneMachineError",
    "PlatformError",
    "QueryError",
    "QueryTooLongError",
    "ShardUnavailableError",
    "StateError",
    "StorageFullError",
    "TaskInputError",
    "UnknownAliasError",
    "UnknownFeedbackError",
    "TrainingDataError",
    "TrainingError",
    "UnknownDocumentError",
    "UnknownEncoderError",
    "UsageError",
]
