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
    # Headers are a list, looked through for each name that is asked for: it is looked through once here.
    there = {name.lower(): value for name, value in response.headers}
    wanted = {
        **_HEADERS,
        "Content-Security-Policy": PAGE_POLICY if response.mimetype == "text/html" else DATA_POLICY,
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }
    if "frame-ancestors" in there.get("content-security-policy", ""):
        del wanted["X-Frame-Options"]  # browsers know that policy, or neither
    if "access-control-allow-origin" in there:
        del wanted["Cross-Origin-Resource-Policy"]
    response.headers.extend({name: value for name, value in wanted.items() if name.lower() not in there})
    if "Authorization" not in response.vary:
        response.vary.add("Authorization")
    return response
