"""Commands that ask a running service: where it is, the key for it, and what is said when it does not answer."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import click
from click.core import ParameterSource

from kbengine.terminal.options import option

URL_VARIABLE = "KBENGINE_URL"
KEY_VARIABLE = "KBENGINE_KEY"
TIMEOUT_S = 120.0
"""How long a service may be silent: its own deadlines are shorter."""
OWN_CHOICES = ("device", "dtype", "reader")
"""Options about the model, which a service has loaded already."""


class ServiceRefusedError(click.ClickException):
    """The service is not there, or cannot answer."""


class RefusedInputError(ServiceRefusedError):
    """The service answers that what was asked is the problem."""

    exit_code = 2


class Service:
    """A service at an address, asked over its JSON API."""

    def __init__(self, url: str, key: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise RefusedInputError(f"{URL_VARIABLE} is {url!r}, wanted an address such as http://localhost:8080")
        self.url = url.rstrip("/")
        self._key = key

    @classmethod
    def of_environment(cls) -> Service:
        """Return the service that the environment names."""
        return cls(os.environ[URL_VARIABLE], os.environ.get(KEY_VARIABLE) or None)

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at a path.

        Raises:
            ServiceRefusedError: the service is not there, or refuses.
        """
        with self._open(path, None) as response:
            return self._object(response.read())

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON object that a body is answered with; raises as `get` does."""
        with self._open(path, body) as response:
            return self._object(response.read())

    def delete(self, path: str) -> dict[str, Any]:
        """Return the JSON object that deleting what is at a path is answered with; raises as `get` does."""
        with self._open(path, None, method="DELETE") as response:
            return self._object(response.read())

    def send(self, path: str, file: Path, media_type: str, *, name: str) -> dict[str, Any]:
        """Send a file piece by piece and return the JSON object that it is answered with; raises as `get` does.

        Args:
            path: Where it is sent.
            file: What is sent.
            media_type: What it is.
            name: The sender's own name for the change: sent again under it, the file is not taken twice.
        """
        with file.open("rb") as data:
            headers = {
                "Content-Type": media_type,
                "Content-Length": str(file.stat().st_size),
                "Idempotency-Key": name,
            }
            with self._open(path, data, headers=headers) as response:
                return self._object(response.read())

    def download(self, path: str, out: Path) -> int:
        """Write what is at a path to a file, which appears when it is whole, and return its bytes.

        Raises:
            ServiceRefusedError: the service is not there, refuses, or breaks off.
        """
        from http.client import HTTPException

        temporary = out.with_name(f".{out.name}.downloading")
        try:
            with self._open(path, None) as response, temporary.open("wb") as file:
                wanted = response.headers.get("Content-Length")  # type: ignore[attr-defined]  # urllib's responses
                try:
                    shutil.copyfileobj(response, file, 1 << 16)
                except (OSError, HTTPException) as error:
                    raise self._broken_off(error) from error
                n_bytes = file.tell()
                if wanted is not None and n_bytes != int(wanted):
                    raise self._broken_off(f"{n_bytes:,} of {int(wanted):,} bytes came")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
        return n_bytes

    def lines(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the JSON lines that a body is answered with, as they come; raises as `get` does."""
        from http.client import HTTPException

        with self._open(path, body) as response:
            try:
                for line in response:
                    yield self._object(line)
            except (OSError, HTTPException) as error:
                raise self._broken_off(error) from error

    def _broken_off(self, how: object) -> ServiceRefusedError:
        return ServiceRefusedError(f"the service at {self.url} broke off its answer: {how}; ask again")

    def refused(self, problem: Mapping[str, Any], status: int) -> ServiceRefusedError:
        """Return the error that a problem document tells of."""
        detail = problem.get("detail") or problem.get("title") or f"status {status}"
        places = "; ".join(f"{each['pointer']}: {each['detail']}" for each in problem.get("errors") or ())
        hint = f"; set {KEY_VARIABLE} to a key of the service" if status == 401 else ""
        message = f"the service at {self.url} says: {detail}{f' ({places})' if places else ''}{hint}"
        return (RefusedInputError if status in (400, 404, 413, 422) else ServiceRefusedError)(message)

    def _open(
        self,
        path: str,
        body: Mapping[str, Any] | IO[bytes] | None,
        *,
        headers: Mapping[str, str] | None = None,
        method: str | None = None,
    ) -> IO[bytes]:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        sent = {"Accept": "application/json", "Content-Type": "application/json", **(headers or {})}
        if self._key is not None:
            sent["Authorization"] = f"Bearer {self._key}"
        data = json.dumps(body, ensure_ascii=False).encode() if isinstance(body, Mapping) else body
        try:
            request = Request(self.url + path, data, sent, method=method)
            opened: IO[bytes] = urlopen(request, timeout=TIMEOUT_S)
        except HTTPError as error:
            with error:
                problem = self._problem(error.read())
            raise self.refused(problem, error.code) from error
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ServiceRefusedError(
                f"there is no service at {self.url} ({reason}); start one with 'kbengine serve --kb DIR', correct "
                f"{URL_VARIABLE}, or unset it and give --kb"
            ) from error
        return opened

    def _object(self, data: bytes) -> dict[str, Any]:
        try:
            record = json.loads(data)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise ServiceRefusedError(f"what is at {self.url} does not answer as kbengine does; correct {URL_VARIABLE}")
        return record

    def _problem(self, data: bytes) -> dict[str, Any]:
        try:
            problem = json.loads(data)
        except ValueError:
            return {}
        return problem if isinstance(problem, dict) else {}


def _target(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Return the directory to ask; None where the environment names a service and the command line no directory."""
    is_typed = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    if os.environ.get(URL_VARIABLE) and not is_typed:
        return None
    if value is None:
        raise click.MissingParameter(f"Or set {URL_VARIABLE} to ask a running service.", context, parameter)
    return value


kb_or_service_option = option(
    "--kb",
    Path,
    "Directory of the knowledge base (KBENGINE_KB); by default the service at KBENGINE_URL is asked.",
    envvar="KBENGINE_KB",
    callback=_target,
)


def refuse_own_choices() -> None:
    """Refuse options about the model, which a service has chosen already.

    Raises:
        click.UsageError: one was typed.
    """
    _refuse_typed(OWN_CHOICES, "is the service's own choice")


def refuse_of_directory(*names: str) -> None:
    """Refuse options that a service cannot be asked for, by the names of their parameters.

    Raises:
        click.UsageError: one was typed.
    """
    _refuse_typed(names, "cannot be asked of a service")


def _refuse_typed(names: Iterable[str], why: str) -> None:
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option_name = next((each.opts[0] for each in context.command.params if each.name == name), f"--{name}")
            raise click.UsageError(f"{option_name} {why}; leave it out, or give --kb to use a directory here")
