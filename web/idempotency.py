"""The Idempotency-Key header: the caller's name for a change, so that it can be sent again without being done twice."""

from __future__ import annotations

import re

from flask import request

from kbengine.errors import InvalidOptionError
from web import limits
from web.request_context import current_request

HEADER = "Idempotency-Key"
_KEY = re.compile(rf"[!-~]{{1,{limits.IDEMPOTENCY_KEY_CHARS}}}")


def operation_of_request() -> str | None:
    """Return the change's name, one of its own for each API key and route; None without the header.

    Raises:
        InvalidOptionError: the header is no key.
    """
    given = request.headers.get(HEADER)
    if given is None:
        return None
    if not _KEY.fullmatch(given):
        raise InvalidOptionError(
            f"the header {HEADER} has {len(given)} characters or some that are not visible ASCII, wanted 1 to "
            f"{limits.IDEMPOTENCY_KEY_CHARS} visible ASCII characters, such as a UUID"
        )
    key = current_request().key
    return f"{'' if key is None else key.id} {request.method} {request.url_rule} {given}"
