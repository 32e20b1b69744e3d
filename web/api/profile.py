"""/v1/profile: an entity's card, or what its name can mean."""

from __future__ import annotations

from apiflask import APIBlueprint
from flask import Response

from kbengine.errors import InvalidOptionError
from web.endings import ASKS, may_end_in
from web.guards import JSON_TYPES, access, body
from web.models.profile import ProfileAddress, ProfileBody, ProfileQuery
from web.profiling import profiler_of
from web.responses import json_response, not_modified, tagged
from web.result_cache import cache_tag, request_key
from web.service import current_service

profile = APIBlueprint("profile", __name__, url_prefix="/v1", tag="Queries")


@profile.get("/profile")
@profile.input(ProfileAddress, location="query")
@profile.output(ProfileBody)
@may_end_in(400, 404, of=ASKS)
@access("read")
def get_profile(query_data: ProfileAddress) -> Response:
    """Show an entity's card.

    Its names, what it is, and the relations that its kind usually has, each value with its probability and place. A
    name that several documents have gives `choices`, and so does one that none has.
    """
    return _answer(query_data.query())


@profile.post("/profile")
@profile.input(ProfileQuery)
@profile.output(ProfileBody)
@body(*JSON_TYPES)
@may_end_in(404, of=ASKS)
@access("read")
def post_profile(json_data: ProfileQuery) -> Response:
    """Show an entity's card, asking for relations of one's own.

    As by GET; `relations` are asked for instead of the usual ones.
    """
    return _answer(json_data)


def _answer(query: ProfileQuery) -> Response:
    """Return the card, or 304 when the caller has it already.

    Raises:
        InvalidOptionError: not one of name and id is given.
    """
    if (query.name is None) == (query.id is None):
        raise InvalidOptionError("give either 'name' or 'id', the id of a document")
    service = current_service()
    knowledge_base = service.engine.knowledge_base
    options = query.options()
    key = request_key("profile", query.name, query.id, options)
    tag = cache_tag(key, knowledge_base.generation, knowledge_base.encoder_for(task="slot-filling").fingerprint)
    known = not_modified(tag)
    if known is not None:
        return known
    profiler = profiler_of(service, service.deadline(query.deadline_ms))
    if query.id is not None:
        card = profiler.profile_of(query.id, options)
    else:
        card = profiler.profile(query.name or "", options)
    return tagged(json_response(card.to_json()), tag)
