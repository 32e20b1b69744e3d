"""The commands about the service: `serve` and `key`; the command line loads them when they are asked for."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kbengine.terminal.console import Output
    from web.keys import Scope

F = TypeVar("F", bound=Callable[..., Any])

SCOPE_NAMES = ("read", "write", "admin")
_LIFE = re.compile(r"(\d+)([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def _kb_option(function: F) -> F:
    return click.option(
        "--kb", type=click.Path(path_type=Path), required=True, envvar="KBENGINE_KB", help="The knowledge base."
    )(function)


def _key_file_option(function: F) -> F:
    return click.option(
        "--key-file",
        type=click.Path(path_type=Path),
        envvar="KBENGINE_KEY_FILE",
        help="Where the API keys are; by default api-keys.json in the knowledge base.",
    )(function)


def _json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")(function)


@click.command()
@_kb_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address; beyond loopback keys are needed.")
@click.option("--port", default=8080, show_default=True, help="Port to bind; 0 takes a free one.")
@click.option("--threads", default=64, show_default=True, help="Requests handled at once.")
@click.option(
    "--queue-size", type=int, help="Queries in hand at once, one more is answered 429; by default ¾ of the threads."
)
@click.option("--max-batch", default=32, show_default=True, help="Queries encoded and searched together.")
@click.option("--max-wait-ms", default=2.0, show_default=True, help="How long a batch may wait for more queries.")
@click.option("--dispatchers", type=int, help="Batches that run at once; by default 1 on two cores, otherwise 2.")
@click.option("--deadline-s", default=30.0, show_default=True, help="Seconds after which a query is answered 504.")
@click.option("--drain-s", default=0.0, show_default=True, help="Seconds to go on taking requests after SIGTERM.")
@click.option("--graceful-s", default=30.0, show_default=True, help="Seconds for requests in flight after that.")
@click.option("--cache-entries", default=1024, show_default=True, help="Answers kept; 0 keeps none.")
@click.option("--require-key", is_flag=True, help="Ask for an API key on loopback too.")
@_key_file_option
@click.option("--cors-origin", "cors_origins", multiple=True, help="Origin whose pages may call the API.")
@click.option("--allow-host", "allowed_hosts", multiple=True, help="Name besides localhost to answer for without keys.")
def serve(kb: Path, **chosen: Any) -> None:
    """Serve a knowledge base: JSON API, web page, metrics. SIGTERM answers what was accepted, then stops.

    \b
    Examples:
      kbengine serve --kb my-kb
      kbengine key create laptop --scope write --kb my-kb && kbengine serve --kb my-kb --host 0.0.0.0
    """
    with _ended_by_sigterm():
        from web.server import serve as serve_kb
        from web.settings import ServiceSettings

        serve_kb(kb, ServiceSettings(**chosen))


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the program before the server is there: the first process of a container would pass over it."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@click.group()
def key() -> None:
    """Make, list and revoke API keys."""


@key.command("create")
@click.argument("name")
@_kb_option
@_key_file_option
@click.option("--scope", type=click.Choice(SCOPE_NAMES), default="read", show_default=True, help="What it may do.")
@click.option("--expires-in", help="How long it is valid, such as 12h, 30d or 8w; by default for ever.")
@_json_option
def create_key(name: str, kb: Path, key_file: Path | None, scope: Scope, expires_in: str | None, as_json: bool) -> None:
    """Make a key and show its token, this once: only a hash of it is stored.

    \b
    Example: kbengine key create laptop --scope write --kb my-kb
    """
    from web.keys import key_file as keys_of

    made, token = keys_of(kb, key_file).create(name, scope, expires_in=_life(expires_in))
    facts = {"id": made.id, "name": made.name, "scope": made.scope, "expires_at": made.expires_at, "token": token}
    _output(as_json).facts(facts)


@key.command("list")
@_kb_option
@_key_file_option
@_json_option
def list_keys(kb: Path, key_file: Path | None, as_json: bool) -> None:
    """List the keys: ids, names, scopes and when they expire.

    \b
    Example: kbengine key list --kb my-kb
    """
    from web.keys import key_file as keys_of

    rows = [(each.id, each.name, each.scope, each.created_at, each.expires_at) for each in keys_of(kb, key_file).all()]
    _output(as_json).table(("id", "name", "scope", "created_at", "expires_at"), rows)


@key.command("revoke")
@click.argument("key_id")
@_kb_option
@_key_file_option
@_json_option
def revoke_key(key_id: str, kb: Path, key_file: Path | None, as_json: bool) -> None:
    """Revoke a key: a running service refuses it from the next request on.

    \b
    Example: kbengine key revoke 3f9c2a7b10d4 --kb my-kb
    """
    from web.keys import key_file as keys_of

    revoked = keys_of(kb, key_file).revoke(key_id)
    _output(as_json).facts({"revoked": revoked.id, "name": revoked.name})


def _life(text: str | None) -> timedelta | None:
    from kbengine.errors import InvalidOptionError

    if text is None:
        return None
    match = _LIFE.fullmatch(text)
    if match is None:
        raise InvalidOptionError(f"--expires-in is {text!r}, wanted a number of hours, days or weeks: 12h, 30d, 8w")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise InvalidOptionError(f"--expires-in is {text!r}, too long; leave it out for a key that stays") from None


def _output(as_json: bool) -> Output:
    from kbengine.terminal.console import Output

    return Output(sys.stdout, as_json=as_json)
