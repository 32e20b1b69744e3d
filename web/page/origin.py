"""Changes are taken only from the page itself: no other site can make a visitor's browser add or delete."""

from __future__ import annotations

from flask import request

from web.errors import ForbiddenError

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def check_origin() -> None:
    """Return nothing when the request comes from this page itself.

    Browsers send `Origin` with every form they post; a request without it comes from no page, and then
    `Sec-Fetch-Site` must not say otherwise.

    Raises:
        ForbiddenError: another site's page sent the form.
    """
    if request.method not in _CHANGING:
        return
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    own = request.host_url.rstrip("/")
    if (origin is None and site in (None, "same-origin", "none")) or origin == own:
        return
    raise ForbiddenError(
        f"the form was sent from {origin or site!r}, wanted {own!r}; open the page itself and send it from there"
    )
