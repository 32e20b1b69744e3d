"""Bodies as OpenAI's clients send and read them; fields of theirs that change nothing here are passed over."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from web import limits
from web.models.base import Body, Text, Whole

MAX_RESULTS = 50
MAX_INPUTS = 256


class RankingOptions(Body):
    """How passages are ranked."""

    ranker: str | None = Field(
        None, max_length=100, description="`none` leaves out the reader; any other name is the usual ranking."
    )
    score_threshold: float | None = Field(None, ge=0, le=1, description="Leave out passages with lower scores.")


class ComparisonFilter(Body):
    """A field of documents compared with a value."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Annotated[str, Field(min_length=1, max_length=limits.ID_CHARS)]
    value: str | float | bool | list[str | float]


class CompoundFilter(Body):
    """Filters of which all or one must hold."""

    type: Literal["and", "or"]
    filters: list[ComparisonFilter | CompoundFilter] = Field(min_length=1, max_length=limits.SPANS)


class StoreSearch(Body):
    """What is searched for."""

    query: Text | list[Text] = Field(description="One query, or several whose passages are put together.")
    max_num_results: Annotated[int, Whole, Field(ge=1, le=MAX_RESULTS)] = 10
    filters: ComparisonFilter | CompoundFilter | None = None
    ranking_options: RankingOptions | None = None
    rewrite_query: Literal[False] | None = Field(None, description="Queries are asked as they are.")
    truncate: bool = Field(False, description="Cut queries that the encoder cannot read as a whole (`extra_body`).")


class Content(Body):
    """A piece of text."""

    type: Literal["text"]
    text: str


class FoundPassage(Body):
    """A passage that was found."""

    file_id: str = Field(description="The document's id.")
    filename: str = Field(description="Its title.")
    score: float = Field(description="From 0 to 1; compares the passages of one query.")
    attributes: dict[str, str | float | bool] = Field(description="Where the passage and its best phrase stand.")
    content: list[Content]


class SearchPage(Body):
    """Passages, best first."""

    object: Literal["vector_store.search_results.page"]
    search_query: list[str]
    data: list[FoundPassage]
    has_more: bool
    next_page: str | None


class EmbeddingsQuery(Body):
    """Texts to be encoded."""

    input: Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_INPUTS)]
    model: Annotated[str, Field(min_length=1, max_length=limits.ID_CHARS)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Whole] | None = Field(None, description="Only what the model has.")
    user: str | None = None


class EmbeddingBody(Body):
    """One vector."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str = Field(description="Numbers, or base64 of little-endian float32.")


class Usage(Body):
    """What the encoder read."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Body):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    data: list[EmbeddingBody]
    model: str
    usage: Usage


class ListedModel(Body):
    """A model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(Body):
    """All models."""

    object: Literal["list"]
    data: list[ListedModel]
