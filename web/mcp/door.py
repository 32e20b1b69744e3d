"""Where tools ask: the service's own app in this process, or a service that is running elsewhere.

Both are asked the same requests, so a tool's answer, its limits and its errors are those of the HTTP API.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from kbengine.errors import InvalidOptionError

if TYPE_CHECKING:
    from flask import Flask

REMOTE_TIMEOUT_S = 120.0
"""How long a service may take: its own deadline for a query is shorter."""
MAX_ANSWER_BYTES = 64 << 20


class RequestFailedError(Exception):
    """A request has no answer: the code of the problem, and what it says for people."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


class Door(Protocol):
    """What answers requests of the HTTP API."""

    def send(self, method: str, path: str, body: Any = None, authorization: str | None = None) -> dict[str, Any]:
        """Return the JSON object that a request is answered with.

        Raises:
            RequestFailedError: it is answered with a problem, or not at all.
        """
        ...


class AppDoor:
    """The app of this process: requests reach it without a network."""

    def __init__(self, app: Flask) -> None:
        self._app = app

    def send(self, method: str, path: str, body: Any = None, authorization: str | None = None) -> dict[str, Any]:
        """Return what the app answers; raises `RequestFailedError`."""
        from werkzeug.test import EnvironBuilder, run_wsgi_app

        builder = EnvironBuilder(
            path, "http://localhost", method=method, headers=[*_headers(authorization).items()], data=_encoded(body)
        )
        try:
            answered, status, _ = run_wsgi_app(self._app, builder.get_environ(), buffered=True)
        finally:
            builder.close()
        return _answer(int(status.partition(" ")[0]), b"".join(answered))


class ServiceDoor:
    """A service at an address, such as one that `kbengine serve` runs."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InvalidOptionError(f"the address of the service is {url!r}, wanted one such as http://localhost:8080")
        self.url = url.rstrip("/")

    def send(self, method: str, path: str, body: Any = None, authorization: str | None = None) -> dict[str, Any]:
        """Return what the service answers; raises `RequestFailedError`."""
        request = Request(self.url + path, _encoded(body), _headers(authorization), method=method)
        try:
            with urlopen(request, timeout=REMOTE_TIMEOUT_S) as response:
                return _answer(response.status, response.read(MAX_ANSWER_BYTES))
        except HTTPError as error:
            with error:
                return _answer(error.code, error.read(MAX_ANSWER_BYTES))
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise RequestFailedError(
                "unreachable", f"the service at {self.url} does not answer ({reason}); is it running there?"
            ) from error


def _headers(authorization: str | None) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return headers if authorization is None else {**headers, "Authorization": authorization}


def _encoded(body: Any) -> bytes | None:
    return None if body is None else json.dumps(body).encode()


def _answer(status: int, data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise RequestFailedError(f"http_{status}", "the answer is no JSON object; is this a kbengine service?")
    if status >= 400:
        raise RequestFailedError(str(answer.get("code", f"http_{status}")), str(answer.get("detail", "no detail")))
    return answer
