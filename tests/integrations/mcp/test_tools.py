"""The tools of `kbengine mcp`, called by the real client in the same process."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client

from kbengine.errors import InvalidOptionError
from web.errors import UnauthorizedError
from web.keys import key_file
from web.mcp.door import AppDoor, ServiceDoor
from web.mcp.server import ServerOptions, make_server

QUESTION = "Who conducted research on radioactivity?"
READERS = {"ask", "search", "annotate", "fill", "profile", "read_document", "describe_knowledge_base"}


@pytest.fixture
def call(service, kb_path):
    """A function that calls one tool of a server on the service's app, and returns the result."""

    def call(name, arguments, mode="auto", **options):
        server = make_server(AppDoor(service.app), ServerOptions(kb=kb_path, **options))

        async def run():
            async with Client(server, mode=mode) as client:
                return await client.call_tool(name, arguments)

        return anyio.run(run)

    return call


def tools_of(service, **options):
    """Return the tools that a client is told of."""

    async def run():
        async with Client(make_server(AppDoor(service.app), ServerOptions(**options))) as client:
            return (await client.list_tools()).tools

    return anyio.run(run)


def test_an_assistant_understands_the_tools(service, kb_path):
    """Each says what it does, what each argument is, what it answers, and that it only reads."""
    tools = tools_of(service, kb=kb_path)

    assert {tool.name for tool in tools} == READERS
    for tool in tools:
        assert len(tool.description.split()) > 8 and "\n\n\n" not in tool.description
        assert tool.annotations.read_only_hint and tool.output_schema["type"] == "object"
        assert all(each.get("description") or "threshold" in name for name, each in properties(tool).items()), tool.name
        assert "context" not in properties(tool)


def properties(tool):
    """Return the arguments of a tool."""
    return tool.input_schema["properties"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_answer_has_its_source(call, service, mode):
    """The same answer as over HTTP, with the sentence it was read off; in both eras of the protocol."""
    result = call("ask", {"question": QUESTION, "k": 2}, mode)
    by_http = service.post("/v1/question", {"text": QUESTION, "k": 2}).json

    assert not result.is_error
    answers = result.structured_content["answers"] or result.structured_content["candidates"]
    assert [(each["text"], each["score"]) for each in answers] == [
        (each["text"], each["score"]) for each in by_http["answers"]
    ]
    for found, wanted in zip(answers, by_http["answers"], strict=True):
        source, place = found["source"], wanted["evidence"][0]
        assert source["title"] == place["document"]["title"] and source["document_id"] == place["document"]["id"]
        assert source["quote"] in place["passage"]["text"]
        offset = place["passage"]["char_offset"]
        assert place["passage"]["text"][source["start"] - offset : source["end"] - offset] == place["text"]


def test_passages_are_found(call):
    """A paragraph each, whole."""
    result = call("search", {"query": "radioactivity", "k": 2})

    found = result.structured_content["answers"]
    assert len(found) == 2 and all(each["source"]["quote"] in each["text"] for each in found)


def test_names_in_a_text_are_found(call, service):
    """With their places, and linked as over HTTP."""
    text = "Marie Curie lived in Paris."
    names = call("annotate", {"text": text, "threshold": 0.0}).structured_content["names"]

    assert [each["text"] for each in names] == ["Marie Curie", "Paris"]
    assert all(text[each["start"] : each["end"]] == each["text"] for each in names)
    wanted = service.post("/v1/annotate", {"text": text, "threshold": 0.0}).json["annotations"]
    assert [each["link"]["document_id"] for each in names] == [each["link"]["document"]["id"] for each in wanted]


def test_a_table_is_filled_subject_by_subject(call, service):
    """Each cell as the slot would be answered alone."""
    asked = {"subjects": ["Marie Curie", "Paris"], "relations": ["P19", "country"]}
    cells = call("fill", asked).structured_content["cells"]

    assert [(each["subject"], each["relation"]) for each in cells] == [
        ("Marie Curie", "P19"), ("Marie Curie", "country"), ("Paris", "P19"), ("Paris", "country")
    ]  # fmt: skip
    alone = service.post("/v1/slot-filling", {"subject": "Paris", "relation": "country", "k": 5}).json
    answered = alone["status"] == "answered"
    assert cells[3]["value"] == (alone["answers"][0]["text"] if answered else None)
    assert bool(cells[3]["problem"]) != answered


def test_an_entity_has_a_card(call, service):
    """The one that HTTP gives; of a name that nothing has the choices."""
    asked = {"name": "Marie Curie", "relations": ["P19", "country"]}
    card = call("profile", asked).structured_content
    wanted = service.post("/v1/profile", asked).json

    assert (card["status"], card["entity"]["document_id"]) == ("found", "marie-curie")
    assert [[value["text"] for value in fact["values"]] for fact in card["facts"]] == [
        [value["text"] for value in fact["values"]] for fact in wanted["facts"]
    ]
    assert all(value["source"]["quote"] for fact in card["facts"] for value in fact["values"])
    assert call("profile", {"name": "Nobody Atall"}).structured_content["status"] == "unknown"
    assert "give either 'name' or 'id'" in call("profile", {}).content[0].text


def test_a_document_is_read_whatever_its_id_holds(call):
    """Slashes and blanks too."""
    document = call("read_document", {"document_id": "a/b c"}).structured_content

    assert document["title"] == "Knowledge base" and document["passages"][0]["text"]


def test_the_knowledge_base_is_described(call):
    """Counts and fields."""
    facts = call("describe_knowledge_base", {}).structured_content

    assert facts["documents"] == 5 and facts["fields"] == []


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("ask", {"question": " "}, "pattern"),
        ("ask", {"question": QUESTION, "k": 51}, "less than or equal to 50"),
        ("ask", {"question": QUESTION, "where": "year ="}, "invalid_option: the filter cannot be read"),
        ("ask", {}, "Field required"),
        ("read_document", {"document_id": "nobody"}, "unknown_document: no document 'nobody'"),
        ("fill", {"subjects": ["a"] * 100, "relations": ["P19", "P20", "P21"]}, "300 cells, wanted at most 256"),
        ("fill", {"subjects": [], "relations": ["P19"]}, "at least 1 item"),
    ],
)
def test_what_cannot_be_asked_is_an_error_of_the_tool(call, name, arguments, said):
    """With what was seen and what is wanted, so that the assistant can try again."""
    result = call(name, arguments)

    assert result.is_error and said in result.content[0].text


def test_an_unknown_relation_is_told_in_its_cell(call):
    """The others are filled."""
    cells = call("fill", {"subjects": ["Paris"], "relations": ["P99999999", "country"]}).structured_content["cells"]

    assert "P99999999" in cells[0]["problem"] and "P99999999" not in (cells[1]["problem"] or "")


def test_documents_are_added_with_a_key_of_scope_write_only(call, service, kb_path):
    """Without one there is no such tool."""
    keys = key_file(kb_path, None)
    reading, writing = (keys.create("a", scope)[1] for scope in ("read", "write"))
    mill = {"id": "mill", "title": "Quillmere", "text": "The mill of Quillmere was built in 1764."}

    assert {tool.name for tool in tools_of(service, kb=kb_path, key=writing)} == READERS | {"add"}
    for options in ({}, {"key": reading}):
        assert {tool.name for tool in tools_of(service, kb=kb_path, **options)} == READERS
        assert "Unknown tool" in call("add", {"documents": [mill]}, **options).content[0].text
    added = call("add", {"documents": [mill]}, key=writing)
    assert (added.structured_content["added"], added.structured_content["replaced"]) == (1, 0)
    assert call("read_document", {"document_id": "mill"}).structured_content["title"] == "Quillmere"
    again = call("add", {"documents": [mill]}, key=writing)
    assert again.is_error and "duplicate_document" in again.content[0].text
    replaced = call("add", {"documents": [mill], "replace": True}, key=writing)
    assert replaced.structured_content["replaced"] == 1
    wrong = call("add", {"documents": [{"id": "x", "title": "", "text": "t", "extra": 1}]}, key=writing)
    assert wrong.is_error and "extra" in wrong.content[0].text


def test_a_wrong_key_is_told_at_the_start(service, kb_path):
    """Rather than with the first request."""
    with pytest.raises(UnauthorizedError, match="the API key is not known"):
        tools_of(service, kb=kb_path, key="kbe_nothing")


def test_what_is_asked_is_chosen(kb_path):
    """A knowledge base or a service, and one that keys can be checked for."""
    with pytest.raises(InvalidOptionError, match="neither --kb nor --url"):
        ServerOptions()
    with pytest.raises(InvalidOptionError, match="--kb and --url are both"):
        ServerOptions(kb=kb_path, url="http://localhost:8080")
    with pytest.raises(InvalidOptionError, match=r"listen on 127\.0\.0\.1, or give --kb"):
        ServerOptions(url="http://localhost:8080", http=True, host="0.0.0.0")
    with pytest.raises(InvalidOptionError, match="wanted one such as http://localhost:8080"):
        ServiceDoor("localhost:8080")


def test_a_service_that_is_not_there_is_an_error_of_the_tool():
    """With its address."""
    server = make_server(ServiceDoor("http://127.0.0.1:9"), ServerOptions(url="http://127.0.0.1:9"))

    async def run():
        async with Client(server) as client:
            return await client.call_tool("ask", {"question": "Who?"})

    result = anyio.run(run)
    assert result.is_error and "http://127.0.0.1:9 does not answer" in result.content[0].text
