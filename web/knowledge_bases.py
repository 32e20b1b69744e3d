"""Several knowledge bases in one process: each an app of its own, found by the name in the address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.errors import InvalidOptionError
from web.request_context import API_ROOT, PAGES_ROOT

if TYPE_CHECKING:
    from flask import Flask

_NAME = r"[a-z0-9][a-z0-9_-]{0,63}"
_GIVEN = re.compile(rf"({_NAME})=(.+)", re.S)
_ADDRESS = re.compile(rf"(/v1)?/kb/({_NAME})(/.*)?", re.S)


@dataclass(frozen=True)
class NamedPath:
    """A knowledge base and the name that it has in addresses."""

    name: str
    path: Path


def named_paths(given: Sequence[str]) -> tuple[NamedPath, ...]:
    """Return what `--kb` says: NAME=PATH, or a path, which is called as its directory is.

    >>> [(each.name, str(each.path)) for each in named_paths(["news=/kbs/today", "/kbs/films"])]
    [('news', '/kbs/today'), ('films', '/kbs/films')]

    Raises:
        InvalidOptionError: two have the same name, or one of several has none that can stand in an address.
    """
    found: list[NamedPath] = []
    for each in given:
        match = None if Path(each).exists() else _GIVEN.fullmatch(each)
        name, path = (match[1], Path(match[2])) if match else (Path(each).absolute().name, Path(each))
        if len(given) > 1 and not re.fullmatch(_NAME, name):
            raise InvalidOptionError(
                f"--kb is {each!r}, wanted NAME=PATH with a name of a-z, 0-9, '-' and '_', since there are several"
            )
        if name in [other.name for other in found]:
            raise InvalidOptionError(f"two knowledge bases are called {name!r}; name them: --kb NAME=PATH")
        found.append(NamedPath(name, path))
    return tuple(found)


class KnowledgeBases:
    """The apps of several knowledge bases as one, by WSGI.

    `/v1/kb/NAME/…` is `/v1/…` of the knowledge base of that name, `/kb/NAME/…` its page and everything else of it.
    Addresses without a name are those of the first.
    """

    def __init__(self, apps: Mapping[str, Flask]) -> None:
        self._apps = dict(apps)
        self._first, *others = self._apps.values()
        self._first.extensions["kbengine"].beside.extend(other.extensions["kbengine"] for other in others)

    @property
    def extensions(self) -> Mapping[str, Any]:
        """Return those of the first app: what the server tells it, it tells all that share its flag."""
        return self._first.extensions

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request with the app that it is for."""
        match = _ADDRESS.fullmatch(environ.get("PATH_INFO", ""))
        app = self._apps.get(match[2]) if match else None
        if match is None or app is None:
            return self._first(environ, start_response)
        api, name, rest = match.groups()
        before = environ.get("SCRIPT_NAME", "")
        found = {**environ, API_ROOT: f"{before}/v1/kb/{name}", PAGES_ROOT: before}
        if api:
            found["PATH_INFO"] = f"/v1{rest or '/kb'}"  # the address of the name alone tells what it is
        elif rest:
            found |= {"SCRIPT_NAME": f"{before}/kb/{name}", "PATH_INFO": rest}
        else:
            start_response("308 Permanent Redirect", [("Location", f"{before}/kb/{name}/"), ("Content-Length", "0")])
            return [b""]
        return app(found, start_response)
