"""What is answered over HTTP: one envelope for every task, and for plain search."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from kbengine.search.query import Unit
from web.models.base import Body

Span = Annotated[list[int], Field(min_length=2, max_length=2)]


class DocumentBody(Body):
    """The document that something stands in."""

    id: str
    title: str
    url: str | None
    meta: dict[str, Any] = Field({}, description="Its fields, which `where` asks for.")


class PassageBody(Body):
    """A passage with its whole text; all offsets are characters (Unicode code points) of this text."""

    id: int = Field(description="Ours; not kept when the knowledge base is built anew.")
    ordinal: int = Field(description="The paragraph's number in the document.")
    section: str | None = Field(description="The heading it stands under.")
    char_offset: int = Field(description="Where the text begins in its paragraph, of which it may be a part.")
    text: str


class PartsBody(Body):
    """The parts of a score, already weighted: they sum to it."""

    start: float
    end: float
    passage: float
    lexical: float
    sparse: float = Field(0.0, description="Of n-grams around the phrase; 0 where no sparse rows are stored.")
    name: float = Field(0.0, description="Of the subject or mention being called or standing there as asked.")
    reader: float = Field(0.0, description="Of what the reader says of the place; 0 where nothing was read.")


class ProvenanceBody(Body):
    """The place as an entry of a KILT submission."""

    wikipedia_id: str
    title: str | None = None
    section: str | None = None
    start_paragraph_id: int | None = None
    start_character: int | None = None
    end_paragraph_id: int | None = None
    end_character: int | None = None
    text: str | None = None
    score: float | None = None


class EvidenceBody(Body):
    """A place that speaks for an answer."""

    document: DocumentBody
    passage: PassageBody
    text: str = Field(description="The characters at `span`.")
    span: Span = Field(description="Where the answer begins and ends in the passage's text.")
    sentence: Span = Field(description="The sentence around it.")
    score: float
    provenance: ProvenanceBody
    parts: PartsBody | None = Field(None, description="Only with `explain`.")


class SupportBody(Body):
    """How much speaks for an answer."""

    places: int
    passages: int
    documents: int


class AnswerBody(Body):
    """One answer with the places that speak for it, best first."""

    rank: int
    text: str
    unit: Unit
    score: float = Field(description="Higher is better; comparable within one answer only.")
    probability: float | None = Field(description="That the answer is right; null where the task is not calibrated.")
    document: DocumentBody
    support: SupportBody
    evidence: list[EvidenceBody] = Field(min_length=1)


class ValueBody(Body):
    """One value of a slot."""

    text: str
    rank: int = Field(description="Of the answer, which has the places that say so.")
    probability: float
    contradicts: list[str] = Field(description="The other values, where the relation has only one.")


class ModelBody(Body):
    """What read the query."""

    encoder: str
    fingerprint: str


class AnswerEnvelope(Body):
    """The answer to one query."""

    task: Literal["question", "slot-filling", "entity-linking", "dialogue", "search"]
    status: Literal["answered", "no_answer"]
    reason: Literal["nothing_found", "unanswerable", "below_threshold"] | None = Field(
        description="Why there is no answer."
    )
    answers: list[AnswerBody] = Field(description="Best first; with no answer those that were not good enough.")
    values: list[ValueBody] = Field(description="Slot filling: all values of the relation, best first.")
    threshold: float | None
    answerable: float | None = Field(description="The probability that the knowledge base holds an answer.")
    mention: Span | None = Field(description="Entity linking: where the mention stands in the text without marks.")
    generation: int = Field(description="Of the knowledge base that was searched: the number of its last commit.")
    model: ModelBody
    query_tokens: int
    truncated: bool = Field(description="Whether the encoder could not read all of the query.")
    lexical_factor: float | None = Field(
        None, description="Dialogue: what the lexical weight was multiplied by; null where nothing decided about it."
    )
    timings_ms: dict[str, float]
    shards_answered: int | None = Field(None, description="Of a cluster: how many of its shards the answer is from.")
    degraded: bool | None = Field(
        None, description="Of a cluster: whether some shards did not answer, so that what they hold is missing."
    )
    cached: bool = Field(description="Whether the answer was kept from an earlier, equal query.")


class ProblemPlace(Body):
    """A place in the request that is wrong."""

    pointer: str = Field(description="JSON pointer into the body, or the name of a parameter.")
    detail: str


class ErrorBody(Body):
    """A problem in the words of OpenAI's clients."""

    message: str
    type: str
    code: str
    param: str | None = Field(description="The field, where it is one.")


class ProblemBody(Body):
    """A problem document (RFC 9457)."""

    type: str = Field(description="Address of the code's description, relative to the service.")
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable name of the problem.")
    request_id: str
    errors: list[ProblemPlace] | None = None
    error: ErrorBody | None = Field(None, description="The same, on the routes that OpenAI's clients ask.")


class BatchOutcome(Body):
    """What became of one query of a batch: an answer, or a problem of its own."""

    id: str
    status: int = Field(description="The HTTP status that the query would have had alone.")
    answer: AnswerEnvelope | None = None
    problem: ProblemBody | None = None


class BatchAnswer(Body):
    """The outcomes of a batch, in the order of its queries."""

    items: list[BatchOutcome]
    partial: bool = Field(description="Whether some queries had no answer before the deadline.")


class LinkingAnswer(RootModel[AnswerEnvelope | BatchAnswer]):
    """One envelope for one mention; the outcomes of a batch for `spans`."""
