"""The same request as code is the same request."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.models.queries import DialogueQuery, EntityLinkingQuery, QuestionQuery, SlotFillingQuery
from web.page.as_code import curl_code, python_code
from web.page.search_form import SearchForm

BODIES = {
    "question": QuestionQuery,
    "slot-filling": SlotFillingQuery,
    "entity-linking": EntityLinkingQuery,
    "dialogue": DialogueQuery,
}
FORMS = [
    SearchForm(q='Who\'s "there"? $(id) `id` \\ \n ö', k=3, effort="exact", threshold=0.5, unit="sentence"),
    SearchForm(task="slot-filling", subject="O'Neill", relation="P19"),
    SearchForm(task="entity-linking", text="By [START_ENT] Rook [END_ENT]."),
    SearchForm(task="entity-linking", text="[START_ENT] Rook [END_ENT] of [START_ENT] Vell [END_ENT]"),
    SearchForm(task="dialogue", turns=("a", "b")),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.task)
def test_the_api_takes_the_body(form):
    """Every body follows the schema of its route and asks for what the page asks for."""
    model = BODIES[form.task].model_validate(form.body())

    assert (model.k, model.effort, model.threshold, model.unit) == (
        form.k,
        form.effort,
        form.threshold,
        form.unit,
    )
    if "spans" not in form.body():
        assert [model.request()] == form.query().requests()


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1))
def test_a_shell_runs_the_command_as_it_is_meant(text):
    """No text ends its argument or begins a command of its own."""
    words = shlex.split(curl_code(SearchForm(q=text), "http://127.0.0.1:8080/").replace("\\\n", ""))

    assert words[:3] == ["curl", "-s", "http://127.0.0.1:8080/v1/question"]
    assert json.loads(words[words.index("-d") + 1]) == {"text": text}
    assert len(words) == 7


@given(st.text(st.characters(blacklist_categories=("Cs",)), min_size=1))
def test_the_python_program_holds_the_same_body(text):
    """It compiles, and its body is the request's."""
    code = python_code(SearchForm(q=text), "http://127.0.0.1:8080/")
    found: dict[str, object] = {}
    exec(compile(code[: code.index("headers = ")], "page", "exec"), found)

    assert found["body"] == {"text": text}
    compile(code, "page", "exec")


def test_with_keys_the_code_names_the_variable_that_holds_one():
    """No key is ever written into a page."""
    for code in (
        curl_code(SearchForm(q="x"), "http://h/", needs_key=True),
        python_code(SearchForm(q="x"), "http://h/", needs_key=True),
    ):
        assert "KBENGINE_KEY" in code and "Authorization" in code
