"""The errors of kbengine: one tree, each class a rule, its docstring the definition.

KBError
├── UsageError                 the caller asked for something that cannot be asked (exit 2, HTTP 400)
│   ├── InvalidOptionError     an option's value is outside what it may be
│   ├── UnknownDocumentError   no live document has this id (exit 1, HTTP 404)
│   ├── DuplicateDocumentError one call names the same document twice
│   ├── UnknownAliasError      the document has no such alias (exit 1, HTTP 404)
│   ├── DuplicateAliasError    the document has this alias already
│   ├── UnknownFeedbackError   there is no feedback of this number (exit 1, HTTP 404)
│   └── UnknownEncoderError    no tuned encoder has this name (exit 1, HTTP 404)
├── StateError                 the request is fine, the knowledge base is not in a state to serve it
│   ├── NotAKnowledgeBaseError the directory holds no knowledge base
│   ├── KnowledgeBaseExistsError the directory already holds something
│   ├── FormatTooNewError      written by a newer kbengine
│   ├── BuildIncompleteError   a build was interrupted and not resumed
│   ├── EncoderMismatchError   the encoder is not the one that made the vectors
│   ├── LockedError            another process is writing
│   ├── CatalogUnavailableError a cluster's catalog does not answer (HTTP 503)
│   └── PlatformError          the machine lacks something that durability needs (SQLite too old, network disk)
├── CorruptError               a file is not what was written: found by checksum, size or structure
└── StorageFullError           no space, quota or file-size limit; nothing was changed
"""

from __future__ import annotations

from typing import ClassVar


class KBError(Exception):
    """Any failure that kbengine can name; `code` is stable, the message is for people.

    A message says the value seen, the value wanted and what to do.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(KBError):
    """The caller asked for something that cannot be asked."""

    code = "usage"
    exit_code = 2


class InvalidOptionError(UsageError):
    """An option's value is outside what it may be."""

    code = "invalid_option"


class UnknownDocumentError(UsageError):
    """No live document has this id."""

    code = "unknown_document"
    exit_code = 1


class DuplicateDocumentError(UsageError):
    """One call names the same document id twice, so which text should win is unknown."""

    code = "duplicate_document"


class UnknownAliasError(UsageError):
    """The document has no such alias."""

    code = "unknown_alias"
    exit_code = 1


class DuplicateAliasError(UsageError):
    """The document has this alias already, so which prior should count is unknown."""

    code = "duplicate_alias"


class UnknownFeedbackError(UsageError):
    """There is no feedback of this number."""

    code = "unknown_feedback"
    exit_code = 1


class UnknownEncoderError(UsageError):
    """The knowledge base has no tuned encoder of this name."""

    code = "unknown_encoder"
    exit_code = 1


class StateError(KBError):
    """The request is fine; the knowledge base is not in a state to serve it."""

    code = "state"


class NotAKnowledgeBaseError(StateError):
    """The directory does not exist or holds no knowledge base."""

    code = "not_a_knowledge_base"


class KnowledgeBaseExistsError(StateError):
    """The directory already holds something, and creating would overwrite it."""

    code = "knowledge_base_exists"


class FormatTooNewError(StateError):
    """The knowledge base was written by a newer kbengine than this one."""

    code = "format_too_new"


class BuildIncompleteError(StateError):
    """A build was interrupted and has not been resumed to its end."""

    code = "build_incomplete"


class EncoderMismatchError(StateError):
    """The encoder at hand is not the one that made the stored vectors."""

    code = "encoder_mismatch"


class LockedError(StateError):
    """Another process holds the writer lock of the knowledge base."""

    code = "locked"


class CatalogUnavailableError(StateError):
    """The catalog of a cluster does not answer: what is known of the newest generation is read on, writes fail."""

    code = "catalog_unavailable"


class PlatformError(StateError):
    """The machine lacks something that durability needs, such as a current SQLite."""

    code = "platform"


class CorruptError(KBError):
    """A file is not what was written: its size, checksum or structure is wrong."""

    code = "corrupt"


class StorageFullError(KBError):
    """The disk, quota or file-size limit is reached; nothing was changed."""

    code = "storage_full"
