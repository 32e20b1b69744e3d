"""Opaque page tokens: where a listing goes on, good for that listing only."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json

from web.errors import PageTokenError

_CHECK_CHARS = 8


def page_token(listing: str, position: str | int) -> str:
    """Return the token of the page of `listing` that begins after `position`."""
    payload = json.dumps(position, ensure_ascii=False)
    return base64.urlsafe_b64encode((_check(listing, payload) + payload).encode()).decode().rstrip("=")


def page_position(listing: str, token: str) -> str | int:
    """Return the position that the token holds.

    Raises:
        PageTokenError: it was not made by `page_token` for this listing.
    """
    try:
        decoded = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
        check, payload = decoded[:_CHECK_CHARS], decoded[_CHECK_CHARS:]
        position = json.loads(payload)
    except (ValueError, binascii.Error, RecursionError):
        raise _foreign() from None
    if check != _check(listing, payload) or not isinstance(position, str | int):
        raise _foreign()
    return position


def _check(listing: str, payload: str) -> str:
    # Against mistakes, not against forgery: a forged token names a position that the caller may ask for anyway.
    return hashlib.sha256(f"{listing}\n{payload}".encode()).hexdigest()[:_CHECK_CHARS]


def _foreign() -> PageTokenError:
    return PageTokenError(
        "the page token was not given out by this listing; leave it out to begin with the first page, and ask for the "
        "following ones with the same query"
    )
