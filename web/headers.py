"""Headers of every answer: what a browser may do with it, and what ties it to the log."""

from __future__ import annotations

from flask import Response

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "X-Frame-Options": "DENY",
}


def secured(response: Response) -> Response:
    """Return the response with its security headers; a view's own policy stays."""
    may_be_framed = "frame-ancestors" in response.headers.get("Content-Security-Policy", "")
    for name, value in _HEADERS.items():
        if name != "X-Frame-Options" or not may_be_framed:  # of which it knows all or none
            response.headers.setdefault(name, value)
    is_page = response.mimetype == "text/html"
    response.headers.setdefault("Content-Security-Policy", PAGE_POLICY if is_page else DATA_POLICY)
    if "Access-Control-Allow-Origin" not in response.headers:
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    response.headers.setdefault("Cache-Control", "no-cache")
    if "Authorization" not in response.vary:
        response.vary.add("Authorization")
    return response
