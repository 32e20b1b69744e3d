"""Documents, aliases and the knowledge base itself as bodies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, RootModel

from kbengine.corpus.detect import CorpusFormat
from web import limits
from web.models.answers import PassageBody
from web.models.base import AddressFilter, Body, DocumentId, Name, StoredText, Title


class NewDocument(Body):
    """A document to add; one whose id is there already is replaced, unless the address says `replace=false`."""

    id: DocumentId
    title: Title
    text: StoredText | list[StoredText] = Field(
        description="Paragraphs: a list, or one text in which blank lines part them."
    )
    url: Annotated[StoredText, Field(max_length=limits.TITLE_CHARS)] | None = None
    meta: dict[str, JsonValue] | None = Field(
        None, description="Fields of your own, kept with the document, shown in answers, and what `where` asks for."
    )
    aliases: list[Name] | None = Field(None, max_length=limits.ALIASES, description="Other names of the document.")

    def mapping(self) -> dict[str, Any]:
        """Return the document as the knowledge base takes it."""
        return vars(self) | {"meta": self.meta or {}}


class NewDocuments(Body):
    """Documents to add, all or none of them."""

    documents: list[NewDocument] = Field(min_length=1, max_length=limits.DOCUMENTS)


class AddQuery(Body):
    """How documents are added; parameters of an address are text, so truth values are read from it."""

    model_config = ConfigDict(strict=False)

    replace: bool = Field(
        True, description="Whether documents whose ids are there already are replaced; with false the answer is 409."
    )


class UploadQuery(Body):
    """How an uploaded file is added; parameters of an address are text, so truth values are read from it."""

    model_config = ConfigDict(strict=False)

    name: str = Field(
        "", max_length=limits.ID_CHARS, description="The file's name: it tells a text file's kind and is its id."
    )
    replace: bool = Field(
        True, description="Whether documents whose ids are there already are replaced; with false the job fails then."
    )
    format: CorpusFormat | None = Field(None, description="The file's format; by default it is detected.")
    skip_bad: bool = Field(False, description="Pass over records that cannot be read, and count them.")


class DocumentsToAdd(RootModel[NewDocument | NewDocuments]):
    """One document, or several."""

    @staticmethod
    def read(value: Any) -> list[NewDocument]:
        """Return the documents, in order; errors are those of the form that was meant.

        Raises:
            ValidationError: it is neither.
        """
        if isinstance(value, dict) and "documents" in value:
            return list(NewDocuments.model_validate(value).documents)
        return [NewDocument.model_validate(value)]


class DocumentIds(Body):
    """Documents to delete, all or none of them."""

    ids: list[Annotated[str, Field(min_length=1, max_length=limits.ID_CHARS)]] = Field(
        min_length=1, max_length=limits.DOCUMENTS
    )


class Committed(Body):
    """A change that is durable, and seen by every query from now on."""

    generation: int = Field(description="The number of the commit.")
    added: int
    replaced: int
    deleted: int
    repeated: bool = Field(description="Whether an earlier request with the same Idempotency-Key had done it already.")


class DocumentSummary(Body):
    """A document without its text."""

    id: str
    title: str
    url: str | None
    passages: int
    meta: dict[str, Any] = Field(description="Its fields.")
    added_in: int = Field(description="The generation that added it.")


class DocumentList(Body):
    """One page of documents."""

    documents: list[DocumentSummary]
    next_page_token: str | None = Field(description="Send it as `page_token` for the next page; null on the last.")
    generation: int


class FullDocument(Body):
    """A document with its passages."""

    id: str
    title: str
    url: str | None
    meta: dict[str, Any]
    added_in: int
    passages: list[PassageBody]


class ListQuery(Body):
    """What a listing of documents may be asked; parameters of an address are text, so numbers are read from it."""

    model_config = ConfigDict(strict=False)

    q: str = Field("", max_length=limits.WORDS_CHARS, description="Words to look for; best matches first.")
    where: AddressFilter = Field("", description="A filter over the documents' fields, such as `source = 'manual'`.")
    sort: str = Field(
        "",
        max_length=limits.TITLE_CHARS,
        description="By `id`, `title`, `added`, `passages` or a field of the documents; from large to small with a "
        "minus before it, such as `-added`. By default by id, and with `q` the best first.",
    )
    limit: int = Field(50, ge=1, le=limits.PAGE_ITEMS)
    page_token: str = Field("", max_length=limits.TOKEN_CHARS, description="Of the page before; empty for the first.")


class VerifyFinding(Body):
    """Something that is not what was written."""

    severity: Literal["error", "repairable", "derived", "leftover"]
    where: str
    what: str


class VerifyBody(Body):
    """The last verification of this process."""

    state: Literal["never", "running", "done", "failed"]
    started_at: str | None
    finished_at: str | None
    ok: bool | None = Field(description="Whether nothing acknowledged is lost or wrong; null before the first.")
    findings: list[VerifyFinding]
    problem: str | None


class CommitEntry(Body):
    """One of the last commits."""

    generation: int
    at: str
    operation: str
    added: int
    replaced: int
    deleted: int
    note: str | None


class KnowledgeBaseBody(Body):
    """What the knowledge base holds and how large it is."""

    name: str = Field(description="What it is called in addresses, where the service has several.")
    served: list[str] = Field(
        description="The names of all that the service has, for `/v1/kb/NAME/…`; with API keys its own alone."
    )
    state: str
    generation: int
    documents: int
    passages: int
    tokens: int
    stored_vectors: int
    indexed_vectors: int = Field(description="Stored vectors that a search may start from; each stored one can answer.")
    kept_fraction: float = Field(description="Share of all tokens that are indexed.")
    deleted_documents_not_compacted: int
    segments: int
    aliases: int
    links: int
    fields: dict[str, list[str]] = Field(description="The names that documents' fields have, with the values' types.")
    bytes: int
    bytes_by_kind: dict[str, int]
    bytes_by_use: dict[str, int]
    bytes_per_vector: float | None
    bytes_per_vector_without_text: float | None
    index: str
    index_quantiser: str
    index_nprobe: int | None = Field(description="Lists that a query looks into, where that was measured.")
    index_recall: float | None = Field(description="Share of the nearest tokens that lay in as many lists.")
    stored_tokens: Literal["all", "indexed"]
    stored_as: Literal["4 bits", "int8", "index codes"]
    int8_vectors: Literal["kept", "dropped"]
    encoder: str
    encoder_fingerprint: str
    dimension: int
    filter: dict[str, float] | Literal["none"]
    created_at: str
    kbengine_version: str
    format_version: int | str
    last_commits: list[CommitEntry]
    verify: VerifyBody
