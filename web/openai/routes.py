"""The routes that OpenAI's clients ask, with errors in their form."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from apiflask import APIBlueprint
from flask import Response

from adapters.tasks.answerer import AnswerOptions
from kbengine.errors import InvalidOptionError, UnknownEncoderError
from kbengine.inputs import Question
from web import limits
from web.endings import ASKS, may_end_in
from web.engine import all_of
from web.guards import JSON_TYPES, access, body
from web.models.openai import Embeddings, EmbeddingsQuery, ListedModel, ModelList, SearchPage, StoreSearch
from web.openai.filters import where_of
from web.problems import MEDIA_TYPE, http_problem
from web.responses import json_response, problem_response
from web.service import current_service

if TYPE_CHECKING:
    from adapters.tasks.answers import Answer, TaskAnswer
    from kbengine.knowledge_base import KnowledgeBase

openai = APIBlueprint("openai", __name__, url_prefix="/v1", tag="OpenAI")

QUERY_SIDE = ":query"
"""Ends the name of a model whose vectors are those of queries."""
HALF_SCORE = 100.0
"""The score of a passage that is told as ½: scores have no upper end, those of OpenAI's form do."""
_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


@openai.after_request
def _as_openai_has_it(response: Response) -> Response:
    """Return a problem document with the member `error` that OpenAI's clients read."""
    if response.mimetype != MEDIA_TYPE:
        return response
    problem = json.loads(response.get_data())
    first: dict[str, str] = next(iter(problem.get("errors", [])), {})
    kind = _KINDS.get(problem["status"], "invalid_request_error" if problem["status"] < 500 else "server_error")
    error = {"message": problem["detail"], "type": kind, "code": problem["code"]}
    param = first.get("pointer", "").strip("/").replace("/", ".") or None
    response.set_data(json.dumps(problem | {"error": {**error, "param": param}}))
    return response


@openai.post("/vector_stores/<store>/search")
@openai.input(StoreSearch)
@openai.output(SearchPage)
@body(*JSON_TYPES)
@may_end_in(404, of=ASKS)
@access("read")
def search_store(store: str, json_data: StoreSearch) -> Response:
    """Search the knowledge base as OpenAI's vector stores are searched.

    The store's id is the knowledge base's name. Passages come back, best first; of several queries those of each.
    """
    service = current_service()
    own = service.engine.knowledge_base.path.name
    if store != own:
        return problem_response(http_problem(404, f"there is no vector store {store!r}; the one here is {own!r}"))
    ranking = json_data.ranking_options
    options = AnswerOptions(
        k=json_data.max_num_results,
        unit="passage",
        where=None if json_data.filters is None else where_of(json_data.filters),
        truncate=json_data.truncate,
        read=0 if ranking is not None and ranking.ranker == "none" else None,
    )
    queries = [json_data.query] if isinstance(json_data.query, str) else json_data.query
    if len(queries) > limits.BATCH:
        raise InvalidOptionError(f"there are {len(queries)} queries, at most {limits.BATCH} are taken")
    outcomes = service.engine.ask_each([(Question(each), options) for each in queries], service.deadline())
    best: dict[int, Answer] = {}
    for answer in cast("list[TaskAnswer]", all_of(outcomes)):
        for each in answer.answers:
            passage_id = each.evidence[0].passage.passage_id
            if passage_id not in best or best[passage_id].score < each.score:
                best[passage_id] = each
    least = 0.0 if ranking is None or ranking.score_threshold is None else ranking.score_threshold
    ranked = sorted(best.values(), key=lambda each: -each.score)[: json_data.max_num_results]
    data = [found for found in map(_found, ranked) if found["score"] >= least]
    page = {"object": "vector_store.search_results.page", "search_query": queries, "data": data}
    return json_response({**page, "has_more": False, "next_page": None})


@openai.get("/models")
@openai.output(ModelList)
@access("read")
def list_models() -> Response:
    """List the models that encode texts.

    Passages are encoded by the first; a name that ends in `:query` is that of a query encoder.
    """
    names = _model_names(current_service().engine.knowledge_base)
    return json_response({"object": "list", "data": [_model(name) for name in names]})


@openai.get("/models/<path:model>")
@openai.output(ListedModel)
@may_end_in(404)
@access("read")
def get_model(model: str) -> Response:
    """Describe a model."""
    return json_response(_model(_known_model(current_service().engine.knowledge_base, model)))


@openai.post("/embeddings")
@openai.input(EmbeddingsQuery)
@openai.output(Embeddings)
@body(*JSON_TYPES, max_bytes=limits.BULK_BODY_BYTES)
@may_end_in(404, 429, 500)
@access("read")
def embed(json_data: EmbeddingsQuery) -> Response:
    """Encode texts as passages, or as queries.

    The vector is the one that passages are compared with queries by (its length is 1), not those of phrases, which
    answers are found by.
    """
    from kbengine.encoders.encoder import PassageText

    service = current_service()
    knowledge_base = service.engine.knowledge_base
    name = _known_model(knowledge_base, json_data.model)
    texts = [json_data.input] if isinstance(json_data.input, str) else json_data.input
    encoder = knowledge_base.encoder
    if json_data.dimensions not in (None, encoder.d):
        raise InvalidOptionError(f"dimensions is {json_data.dimensions}, wanted {encoder.d}, which the model has")
    service.bulk.take()
    try:
        if name.endswith(QUERY_SIDE):
            own = name.removesuffix(QUERY_SIDE)
            tuned = None if own == _own_name(knowledge_base) else own
            queries = knowledge_base.encoder_for(tuned).encode_queries([Question(text) for text in texts])
            vectors, n_tokens = queries.passage, int(queries.n_tokens.sum())
        else:
            passages = encoder.encode_passages([PassageText("", text) for text in texts])
            vectors = np.stack([each.passage_vector for each in passages])
            n_tokens = sum(each.n_encoded_tokens for each in passages)
    finally:
        service.bulk.give_back()
    data = [
        {"object": "embedding", "index": i, "embedding": _written(vector, json_data.encoding_format)}
        for i, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    return json_response({"object": "list", "data": data, "model": name, "usage": usage})


def _found(answer: Answer) -> dict[str, Any]:
    place = answer.evidence[0]
    attributes: dict[str, str | float | bool] = {
        name: value for name, value in place.document.meta.items() if isinstance(value, str | int | float)
    }
    attributes |= {"document_id": place.document.doc_id, "title": place.document.title}
    attributes |= {"paragraph": place.passage.ordinal, "raw_score": answer.score}
    attributes |= {"section": place.passage.section} if place.passage.section else {}
    attributes |= {"url": place.document.url} if place.document.url else {}
    return {
        "file_id": place.document.doc_id,
        "filename": place.document.title,
        "score": max(0.0, answer.score) / (max(0.0, answer.score) + HALF_SCORE),
        "attributes": attributes,
        "content": [{"type": "text", "text": place.passage.text}],
    }


def _own_name(knowledge_base: KnowledgeBase) -> str:
    """Return the name of the encoder it was built with; of one in a directory, not where that is."""
    return Path(knowledge_base.encoder.name).name


def _model_names(knowledge_base: KnowledgeBase) -> list[str]:
    own = _own_name(knowledge_base)
    return list(dict.fromkeys([own, own + QUERY_SIDE, *(name + QUERY_SIDE for name in knowledge_base.encoder_names)]))


def _known_model(knowledge_base: KnowledgeBase, name: str) -> str:
    known = _model_names(knowledge_base)
    if name not in known:
        raise UnknownEncoderError(f"there is no model {name!r}; those here are {', '.join(known)}")
    return name


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "kbengine"}


def _written(vector: Any, encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
    return [float(value) for value in vector]
