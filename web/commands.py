"""The commands about the service: `serve` and `key`; the command line loads them when they are asked for."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option, kb_option, option, reader_option

if TYPE_CHECKING:
    from web.keys import Scope

SCOPE_NAMES = ("read", "write", "admin")
_LIFE = re.compile(r"(\d+)([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


_key_file_option = option(
    "--key-file", Path, "Keep the API keys in this file; by default in the knowledge base.", envvar="KBENGINE_KEY_FILE"
)


@click.command()
@option(
    "--kb kbs",
    Path,
    "Serve this directory, or one under a name: NAME=PATH (KBENGINE_KB); by default there is only --cluster.",
    multiple=True,
    envvar="KBENGINE_KB",
)
@option("--cluster", str, "Serve the cluster at this address, as s3://bucket/prefix; by default there is only --kb.")
@option(
    "--catalog",
    str,
    "The cluster's catalog is here; by default an SQLite file beside objects in a folder.",
    envvar="KBENGINE_CATALOG",
)
@option(
    "--replicas", int, "Search the cluster by so many Ray actors a shard; 0 in this process, without Ray.", default=0
)
@option("--searchers", int, "Divide the shards among so many actors; by default one each, at most 64.")
@option("--ray", str, "Use the Ray runtime at HOST:PORT; by default one is started here.")
@option("--state", Path, "Keep a cluster's fetched shards, API keys and jobs here.", default=Path("kbengine-cluster"))
@option("--no-compaction", bool, "Leave small shards of the cluster as they are; by default they are put together.")
@option("--compact-fan-in", int, "Put so many neighbouring small shards of like size together.", default=8)
@option(
    "--compact-max-rows",
    int,
    "Make shards of at most so many stored vectors so; by default as many as the largest has, at most 4 million.",
)
@option("--host", str, "Listen on this address; beyond loopback keys are needed.", default="127.0.0.1")
@option("--port", int, "Listen on this port; 0 takes a free one.", default=8080)
@option("--threads", int, "Handle so many requests at once.", default=64)
@option("--queue-size", int, "Take so many queries at once, one more is answered 429; by default ¾ of the threads.")
@option("--max-batch", int, "Encode and search at most so many queries together.", default=32)
@option("--max-wait-ms", float, "Let a batch wait so long for more queries.", default=2.0)
@option("--dispatchers", int, "Run so many batches at once; by default 1 on two cores, otherwise 2.")
@option("--deadline-s", float, "Answer a query with 504 after so many seconds.", default=30.0)
@option("--drain-s", float, "Go on taking requests for so many seconds after SIGTERM.", default=0.0)
@option("--graceful-s", float, "Then give requests in flight so many seconds to end.", default=30.0)
@option("--cache-entries", int, "Keep so many answers; 0 keeps none.", default=1024)
@option("--jobs", int, "Do so many long jobs (uploads, tables) at once.", default=1)
@option("--job-days", float, "Keep finished jobs and their results for so many days.", default=7.0)
@reader_option
@option("--verdict", Path, "Judge claims of KILT files by the model that `train verdict` made here; by default none.")
@option("--require-key", bool, "Ask for an API key on loopback too.")
@_key_file_option
@option("--cors-origin cors_origins", str, "Let pages of this origin call the API; by default none.", multiple=True)
@option("--allow-host allowed_hosts", str, "Answer for this name without keys; by default localhost.", multiple=True)
def serve(
    kbs: tuple[Path, ...],
    cluster: str | None,
    catalog: str | None,
    replicas: int,
    searchers: int | None,
    ray: str | None,
    state: Path,
    no_compaction: bool,
    compact_fan_in: int,
    compact_max_rows: int | None,
    **chosen: Any,
) -> None:
    """Serve knowledge bases or a cluster: JSON API, web page, metrics. SIGTERM answers what was accepted, then stops.

    Of several each has its name in addresses, /v1/kb/NAME/… and /kb/NAME/, and keys of its own; addresses without a
    name are those of the first.

    \b
    Examples:
      kbengine serve --kb my-kb
      kbengine serve --kb news=kbs/today --kb films=kbs/films
      kbengine key create laptop --scope write --kb my-kb && kbengine serve --kb my-kb --host 0.0.0.0
      kbengine serve --cluster s3://bucket/wiki --catalog postgresql+psycopg://catalog/wiki --replicas 2
    """
    with _ended_by_sigterm():
        from web.knowledge_bases import named_paths
        from web.server import serve as serve_kb
        from web.settings import ServiceSettings

        settings = ServiceSettings(**chosen)
        if cluster is None:
            serve_kb(named_paths([str(kb) for kb in _given(kbs)]), settings)
        else:
            from kbengine.cluster.opening import ClusterOptions
            from kbengine.cluster.routing import RouterOptions
            from storage.cluster_compaction import CompactionLimits
            from web.server import serve_cluster

            limits = None if no_compaction else CompactionLimits(compact_fan_in, compact_max_rows)
            router = RouterOptions(deadline_s=settings.deadline_s, threads=max(settings.threads, 16))
            options = ClusterOptions(cluster, catalog, state, replicas, searchers, ray, router, limits)
            if kbs and click.get_current_context().get_parameter_source("kbs") == ParameterSource.COMMANDLINE:
                raise click.UsageError("--kb and --cluster are both given; serve knowledge bases, or one cluster")
            serve_cluster(options, settings)


def _given(kbs: tuple[Path, ...]) -> tuple[Path, ...]:
    if not kbs:
        raise click.UsageError("nothing to serve: name a directory with --kb, or a cluster with --cluster")
    return kbs


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
@kb_option
@_key_file_option
@option("--scope", SCOPE_NAMES, "Let the key read, write, or administer.", default="read")
@option("--expires-in", str, "Let the key be valid for this time, such as 12h, 30d or 8w; by default for ever.")
@json_option
def create_key(name: str, kb: Path, key_file: Path | None, scope: Scope, expires_in: str | None, as_json: bool) -> None:
    """Make a key and show its token, this once: only a hash of it is stored.

    \b
    Example: kbengine key create laptop --scope write --kb my-kb
    """
    from web.keys import key_file as keys_of

    made, token = keys_of(kb, key_file).create(name, scope, expires_in=_life(expires_in))
    facts = {"id": made.id, "name": made.name, "scope": made.scope, "expires_at": made.expires_at, "token": token}
    standard_output(as_json=as_json).facts(facts)


@key.command("list")
@kb_option
@_key_file_option
@json_option
def list_keys(kb: Path, key_file: Path | None, as_json: bool) -> None:
    """List the keys: ids, names, scopes and when they expire.

    \b
    Example: kbengine key list --kb my-kb
    """
    from web.keys import key_file as keys_of

    rows = [(each.id, each.name, each.scope, each.created_at, each.expires_at) for each in keys_of(kb, key_file).all()]
    standard_output(as_json=as_json).table(("id", "name", "scope", "created_at", "expires_at"), rows)


@key.command("revoke")
@click.argument("key_id")
@kb_option
@_key_file_option
@json_option
def revoke_key(key_id: str, kb: Path, key_file: Path | None, as_json: bool) -> None:
    """Revoke a key: a running service refuses it from the next request on.

    \b
    Example: kbengine key revoke 3f9c2a7b10d4 --kb my-kb
    """
    from web.keys import key_file as keys_of

    revoked = keys_of(kb, key_file).revoke(key_id)
    standard_output(as_json=as_json).facts({"revoked": revoked.id, "name": revoked.name})


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
