"""The tools that an assistant is given; each is a request of the HTTP API, its answer made short."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from web import limits
from web.mcp.door import Door, RequestFailedError
from web.mcp.results import Added, Answers, Card, Description, FullDocument, Names, Table
from web.models.documents import NewDocument

Where = Annotated[
    str | None,
    Field(
        description="Only documents whose fields pass this, such as `source = 'manual' and date >= '2020-01-01'`; "
        "describe_knowledge_base lists the fields."
    ),
]
ShortText = Annotated[str, Field(min_length=1, max_length=limits.TEXT_CHARS, pattern=r"\S")]
Count = Annotated[int, Field(ge=1, le=50, description="How many are wanted.")]
SomeTexts = Annotated[list[ShortText], Field(min_length=1, max_length=limits.BATCH)]


class Tools:
    """The tools of one server.

    Args:
        door: what answers requests.
        key: the API key that is sent with requests of a client that can send none, as over stdio.
        check_writer: raises `RequestFailedError` unless the authorization that it is given may add documents.
    """

    def __init__(self, door: Door, key: str | None, check_writer: Callable[[str | None], None]) -> None:
        self._door = door
        self._key = key
        self._check_writer = check_writer

    def ask(
        self,
        question: Annotated[ShortText, Field(description="A question, as a person would ask it.")],
        context: Context[Any, Any],
        k: Count = 3,
        where: Where = None,
    ) -> Answers:
        """Answer a question with a short phrase from the documents, such as a name, a date or a number.

        Each answer has its probability and the sentence it was read off. Cite the source's title or url. When
        `answered` is false, say that the knowledge base holds no answer rather than guess. For longer text use search.
        """
        return Answers.of(self._send(context, "POST", "/v1/question", {"text": question, "k": k, "where": where}))

    def search(
        self,
        query: Annotated[ShortText, Field(description="What to look for: words, a question or a sentence.")],
        context: Context[Any, Any],
        k: Count = 5,
        unit: Annotated[
            Literal["passage", "sentence", "document", "phrase"],
            Field(description="What is found: a paragraph, a sentence, a document by its title, or a short phrase."),
        ] = "passage",
        where: Where = None,
    ) -> Answers:
        """Find the passages of the documents that say most about something, best first, to read and quote from."""
        body = {"text": query, "k": k, "unit": unit, "where": where, "truncate": True}
        return Answers.of(self._send(context, "POST", "/v1/search", body))

    def annotate(
        self,
        text: Annotated[
            str, Field(min_length=1, max_length=limits.ANNOTATED_CHARS, pattern=r"\S", description="Any text.")
        ],
        context: Context[Any, Any],
        threshold: Annotated[float, Field(ge=0, le=1, description="The probability a link has to reach.")] = 0.5,
        where: Where = None,
    ) -> Names:
        """Find the names in a text and the documents that they mean; names of one text are linked together."""
        body = {"text": text, "threshold": threshold, "where": where}
        return Names.of(self._send(context, "POST", "/v1/annotate", body))

    def fill(
        self,
        subjects: Annotated[SomeTexts, Field(description="Names of people, places, works and so on.")],
        relations: Annotated[
            SomeTexts,
            Field(
                description="What is wanted of each: a relation such as `place of birth`, a Wikidata property such as "
                "P19, or a wording with X for the subject, such as `instrument that X plays`."
            ),
        ],
        context: Context[Any, Any],
        where: Where = None,
    ) -> Table:
        """Fill a table: one value for each subject and relation, with probability and source.

        At most 256 cells at once. A cell without a value says why.
        """
        slots = [(subject, relation) for subject in subjects for relation in relations]
        if len(slots) > limits.BATCH:
            raise ToolError(
                f"{len(subjects)} subjects by {len(relations)} relations are {len(slots):,} cells, wanted at most "
                f"{limits.BATCH}; ask for fewer subjects at a time"
            )
        queries = [
            {"task": "slot-filling", "subject": subject, "relation": relation, "k": 5, "where": where}
            for subject, relation in slots
        ]
        return Table.of(slots, self._send(context, "POST", "/v1/batch", {"queries": queries})["items"])

    def profile(
        self,
        context: Context[Any, Any],
        name: Annotated[str | None, Field(description="A name of the person, place or thing.")] = None,
        document_id: Annotated[str | None, Field(description="Instead of a name: its document.")] = None,
        relations: Annotated[
            list[ShortText] | None,
            Field(description="Ask for these; by default for those that such things usually have."),
        ] = None,
        where: Where = None,
    ) -> Card:
        """Give the card of a person, place or thing: names, facts with probabilities and sources, what is related.

        A value that is not `sure` is a guess. A name that means several things gives `choices`.
        """
        body = {"name": name, "id": document_id, "relations": relations, "where": where}
        return Card.of(self._send(context, "POST", "/v1/profile", body))

    def read_document(
        self,
        document_id: Annotated[str, Field(min_length=1, description="As a source or a link has it.")],
        context: Context[Any, Any],
    ) -> FullDocument:
        """Read a whole document, passage by passage, such as the one a source or a link names."""
        return FullDocument.of(self._send(context, "GET", f"/v1/documents/{quote(document_id, safe='')}"))

    def describe_knowledge_base(self, context: Context[Any, Any]) -> Description:
        """Tell how much the knowledge base holds, and which fields its documents have."""
        facts = self._send(context, "GET", "/v1/kb")
        return Description(
            documents=facts["documents"],
            passages=facts["passages"],
            names=facts["aliases"],
            fields=sorted(facts["fields"]),
            generation=facts["generation"],
            changed_at=facts["last_commits"][0]["at"],
        )

    def add(
        self,
        documents: Annotated[list[NewDocument], Field(min_length=1, max_length=limits.DOCUMENTS)],
        context: Context[Any, Any],
        replace: Annotated[
            bool, Field(description="Replace documents whose ids are there already, instead of refusing them.")
        ] = False,
    ) -> Added:
        """Add documents to the knowledge base; all or none of them. They are durable and found from then on.

        It needs an API key of scope write. Add only what the user asked to be kept.
        """
        try:
            self._check_writer(self._authorization(context))
        except RequestFailedError as error:
            raise ToolError(str(error)) from error
        body = {"documents": [each.model_dump(exclude_none=True) for each in documents]}
        done = self._send(context, "POST", f"/v1/documents?replace={'true' if replace else 'false'}", body)
        return Added(added=done["added"], replaced=done["replaced"], generation=done["generation"])

    def _send(self, context: Context[Any, Any], method: str, path: str, body: Any = None) -> dict[str, Any]:
        try:
            return self._door.send(method, path, body, self._authorization(context))
        except RequestFailedError as error:
            raise ToolError(str(error)) from error

    def _authorization(self, context: Context[Any, Any]) -> str | None:
        """Return what the client sent, over HTTP; otherwise the key of this process."""
        headers: Mapping[str, str] | None = context.headers
        if headers is not None:
            return headers.get("authorization")
        return None if self._key is None else f"Bearer {self._key}"
