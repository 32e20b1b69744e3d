"""What can be asked over HTTP: one body per task, all with the same options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from kbengine.errors import TaskInputError
from kbengine.inputs import Dialogue, Question, Slot, Task
from kbengine.search.query import MAX_READ, Effort, SearchOptions, SomeWeights, Strategy, Unit
from kbengine.text_form import mention_of, mentions_of
from web import limits
from web.models.base import Body, Filter, Text, Whole

if TYPE_CHECKING:
    from adapters.tasks.answerer import AnswerOptions
    from kbengine.inputs import TaskInput

Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Offset = Annotated[int, Field(ge=0, le=limits.TEXT_CHARS), Whole]
Count = Annotated[int, Field(ge=1, le=limits.K), Whole]
Reads = Annotated[int, Field(ge=0, le=MAX_READ), Whole]
Lists = Annotated[int, Field(ge=1, le=1 << 20), Whole]
EncoderName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
PhraseTokens = Annotated[int, Field(ge=1, le=64), Whole]
Milliseconds = Annotated[int, Field(ge=50, le=3_600_000), Whole]
SpanPair = Annotated[list[Offset], Field(min_length=2, max_length=2)]


class WeightsBody(Body):
    """The weights of the signals: score = phrase, passage, lexical and name part, each times its weight.

    The sparse part counts as a part of the phrase's, times its own weight. What is left out is the task's own.
    """

    phrase: Weight | None = None
    passage: Weight | None = None
    lexical: Weight | None = None
    sparse: Weight | None = Field(None, description="Counts only where sparse vectors are stored.")
    name: Weight | None = Field(None, description="Of the subject or mention being called or standing there as asked.")
    reader: Weight | None = Field(None, description="Of what the reader says of a place in the passages it reads.")


class Options(Body):
    """How to answer; what is left out is the task's own choice."""

    k: Count = Field(10, description="Distinct answers wanted.")
    unit: Unit | None = Field(None, description="What an answer is.")
    effort: Effort = Field("normal", description="How many candidates are looked at.")
    nprobe: Lists | None = Field(None, description="Clusters probed per segment, instead of effort.")
    strategy: Strategy | None = Field(None, description="Where candidates come from; by default the task's, hybrid.")
    read: Reads | None = Field(
        None, description="Best passages that a reader reads together with the query, 0 none; by default what pays."
    )
    weights: WeightsBody | None = Field(None, description="Of the signals, instead of the task's own.")
    explain: bool = Field(False, description="Give the parts of each score.")
    truncate: bool = Field(False, description="Cut a text that is too long for the encoder instead of refusing it.")
    encoder: EncoderName | None = Field(None, description="A query encoder tuned for the knowledge base, by name.")
    where: Filter | None = Field(
        None, description="Search only documents whose fields pass this, such as `source = 'manual' and year >= 2020`."
    )
    partial: bool = Field(
        False,
        description="Of a cluster: answer from the shards that answer where some do not, instead of refusing; "
        "`degraded` then tells so.",
    )
    deadline_ms: Milliseconds | None = Field(
        None, description="Answer 504 after this time; the service's own deadline counts too."
    )

    def search_options(self) -> SearchOptions:
        """Return how to search."""
        given = {field.name: getattr(self, field.name) for field in fields(SearchOptions) if hasattr(self, field.name)}
        weights = None if self.weights is None else SomeWeights(**dict(self.weights))
        return SearchOptions(**{**given, "weights": weights})


class TaskQuery(Options):
    """What one of the tasks is asked, with its options."""

    threshold: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="The probability that the best answer has to reach."
    )

    def request(self) -> TaskInput:
        """Return what is asked."""
        raise NotImplementedError

    def requests(self) -> list[TaskInput]:
        """Return all that is asked: one thing, or one for each mention."""
        return [self.request()]

    def options(self) -> AnswerOptions:
        """Return how it is to be answered."""
        from adapters.tasks.answerer import AnswerOptions

        return AnswerOptions(**vars(self.search_options()), threshold=self.threshold)


class QuestionQuery(TaskQuery):
    """A question, or any short text."""

    text: Text

    def request(self) -> TaskInput:
        """Return the question."""
        return Question(self.text)


class SlotFillingQuery(TaskQuery):
    """A subject whose objects of a relation are wanted, or an object whose subjects are."""

    subject: Text | None = Field(None, description="The subject's name, as a title has it.")
    relation: Text = Field(
        description="A name, any free text, a Wikidata property id such as P19, or a wording with X or {} where the "
        "subject stands, such as `instrument that X plays`."
    )
    object: Text | None = Field(
        None, description="Instead of a subject: the documents about what has this object of the relation are wanted."
    )

    def request(self) -> TaskInput:
        """Return the slot."""
        if (self.subject is None) == (self.object is None):
            given = "neither 'subject' nor 'object' is" if self.subject is None else "'subject' and 'object' are both"
            raise TaskInputError(f"{given} given; give the one that is known")
        return Slot(self.subject or "", self.relation, self.object)


class DialogueQuery(TaskQuery):
    """A conversation whose last turn wants grounding."""

    turns: list[Text] = Field(min_length=1, max_length=limits.TURNS, description="Oldest first.")

    def request(self) -> TaskInput:
        """Return the dialogue."""
        return Dialogue(tuple(self.turns))


class MentionQuery(TaskQuery):
    """A text with one mention: at `span`, or marked `[START_ENT] mention [END_ENT]` in the text itself."""

    text: Text
    span: SpanPair | None = Field(
        None, description="Where the mention begins and ends, in characters (Unicode code points) of the text."
    )

    def request(self) -> TaskInput:
        """Return the mention in its text."""
        if self.span is None:
            return mention_of(self.text)
        return mentions_of(self.text, [(self.span[0], self.span[1])])[0]


class EntityLinkingQuery(MentionQuery):
    """A text with one mention, or with several at `spans`, which are answered like a batch."""

    spans: list[SpanPair] | None = Field(
        None, min_length=1, max_length=limits.SPANS, description="Several mentions; leave `span` out then."
    )

    def requests(self) -> list[TaskInput]:
        """Return one request for each of `spans`, or the one of `span`."""
        if self.spans is None:
            return [self.request()]
        if self.span is not None:
            raise TaskInputError("'span' and 'spans' are both given; give one of them")
        return list(mentions_of(self.text, [(start, end) for start, end in self.spans]))


TASK_QUERIES: Mapping[Task, type[TaskQuery]] = {
    "question": QuestionQuery,
    "slot-filling": SlotFillingQuery,
    "entity-linking": EntityLinkingQuery,
    "dialogue": DialogueQuery,
}


class SearchQuery(Options):
    """Any text, encoded as it is."""

    text: Text
    max_phrase_tokens: PhraseTokens | None = Field(None, description="The longest phrase that is an answer.")

    def request(self) -> Question:
        """Return what to search for."""
        return Question(self.text)

    def options(self) -> SearchOptions:
        """Return how to search."""
        return self.search_options()


class _BatchItem(Body):
    id: str | None = Field(
        None, max_length=limits.ID_CHARS, description="Comes back with the answer; by default the place, from 0."
    )


class QuestionItem(QuestionQuery, _BatchItem):
    """A question of a batch."""

    task: Literal["question"]


class SlotFillingItem(SlotFillingQuery, _BatchItem):
    """A slot of a batch."""

    task: Literal["slot-filling"]


class EntityLinkingItem(MentionQuery, _BatchItem):
    """A mention of a batch."""

    task: Literal["entity-linking"]


class DialogueItem(DialogueQuery, _BatchItem):
    """A dialogue of a batch."""

    task: Literal["dialogue"]


class SearchItem(SearchQuery, _BatchItem):
    """A plain search of a batch."""

    task: Literal["search"]


BatchItem = Annotated[
    QuestionItem | SlotFillingItem | EntityLinkingItem | DialogueItem | SearchItem, Field(discriminator="task")
]


class BatchQuery(Body):
    """Several queries of any tasks, answered in order, each with its own outcome."""

    queries: list[BatchItem] = Field(min_length=1, max_length=limits.BATCH)
    deadline_ms: Milliseconds | None = Field(
        None, description="Queries not answered by then have status 504 of their own."
    )
