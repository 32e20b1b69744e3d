"""API keys: made, listed, revoked and checked; the file holds hashes, never a secret."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from kbengine.errors import InvalidOptionError
from storage.durable import write_durably
from web.errors import KeyFileError, UnauthorizedError

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Each includes those before it."""

KEY_FILE = "api-keys.json"
PREFIX = "kbe"
_VERSION = 2
_READABLE = (1, 2)  # the first had no checksum
_ID_BYTES = 6
_SECRET_BYTES = 32
_TOKEN = re.compile(r"kbe_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NO_HASH = "0" * 64


@dataclass(frozen=True)
class ApiKey:
    """What is stored of a key: enough to check one, not enough to make one.

    Attributes:
        id: Public part; names the key in listings and logs.
        name: What the operator calls it.
        scope: What it may do.
        sha256: Of the secret, which has 256 random bits, so that no slow hash is needed.
        created_at: ISO 8601 in UTC.
        expires_at: When it stops being valid; None is never.
    """

    id: str
    name: str
    scope: Scope
    sha256: str
    created_at: str
    expires_at: str | None = None

    def allows(self, scope: Scope) -> bool:
        """Tell whether the key's scope includes `scope`."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    def expired(self, now: datetime) -> bool:
        """Tell whether the key is not valid any more."""
        return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now


class KeyFile:
    """The keys of one service; changes by other processes count from the next request on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, ApiKey] = {}

    def all(self) -> list[ApiKey]:
        """Return all keys, oldest first; none when there is no file.

        Raises:
            KeyFileError: the file is not a file of keys.
        """
        with self._lock:
            self._reload()
            return list(self._keys.values())

    def create(self, name: str, scope: Scope, *, expires_in: timedelta | None = None) -> tuple[ApiKey, str]:
        """Return a new key and its token, which is shown once and stored nowhere.

        Raises:
            InvalidOptionError: the scope is none, or the life time is not positive.
        """
        if scope not in SCOPES:
            raise InvalidOptionError(f"scope is {scope!r}, wanted one of {', '.join(SCOPES)}")
        if expires_in is not None and expires_in <= timedelta(0):
            raise InvalidOptionError(f"the key would expire after {expires_in}, wanted a time in the future")
        now = datetime.now(UTC)
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        key = ApiKey(
            id=secrets.token_hex(_ID_BYTES),
            name=name,
            scope=scope,
            sha256=_sha256(secret),
            created_at=now.isoformat(timespec="seconds"),
            expires_at=None if expires_in is None else (now + expires_in).isoformat(timespec="seconds"),
        )
        with self._lock, self._alone():
            self._reload()
            self._write([*self._keys.values(), key])
        return key, f"{PREFIX}_{key.id}_{secret}"

    def revoke(self, key_id: str) -> ApiKey:
        """Return the key that is valid no longer, from the next request on.

        Raises:
            KeyFileError: there is no such key.
        """
        with self._lock, self._alone():
            self._reload()
            if key_id not in self._keys:
                raise KeyFileError(f"no key {key_id!r} in {self.path}; 'kbengine key list' shows the ids")
            revoked = self._keys[key_id]
            self._write([key for key in self._keys.values() if key.id != key_id])
            return revoked

    def check(self, token: str) -> ApiKey:
        """Return the key that the token is of; how long that takes does not tell how near a wrong one is.

        Raises:
            UnauthorizedError: it is of no key, or of an expired one.
        """
        match = _TOKEN.fullmatch(token)
        key_id, secret = match.groups() if match else ("", "")
        with self._lock:
            self._reload()
            key = self._keys.get(key_id)
        same = hmac.compare_digest(_sha256(secret), _NO_HASH if key is None else key.sha256)
        if key is None or not same:
            raise UnauthorizedError("the API key is not known; check it, or have one made with 'kbengine key create'")
        if key.expired(datetime.now(UTC)):
            raise UnauthorizedError(f"the API key {key.id} expired at {key.expires_at}; have a new one made")
        return key

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold off other processes that change the file: a revocation must not be lost to a key made meanwhile."""
        try:
            descriptor = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise KeyFileError(f"cannot write beside {self.path}: {error.strerror}; check the directory") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._seen = None
            yield
        finally:
            os.close(descriptor)

    def _reload(self) -> None:
        try:
            facts = self.path.stat()
        except FileNotFoundError:
            self._seen, self._keys = None, {}
            return
        except OSError as error:
            raise KeyFileError(f"cannot read {self.path}: {error.strerror}; check its permissions") from error
        seen = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        if seen != self._seen:
            self._keys = {key.id: key for key in self._read()}
            self._seen = seen

    def _read(self) -> list[ApiKey]:
        try:
            stored: Any = json.loads(self.path.read_text(encoding="utf-8"))
            if stored["version"] not in _READABLE:
                raise ValueError(f"version {stored['version']!r}")
            if stored["version"] > 1 and stored["checksum"] != _checksum(stored["keys"]):
                raise ValueError("the checksum is of other keys")
            return [ApiKey(**each) for each in stored["keys"]]
        except OSError as error:
            raise KeyFileError(f"cannot read {self.path}: {error.strerror}; check its permissions") from error
        except (ValueError, TypeError, KeyError) as error:
            raise KeyFileError(
                f"{self.path} is damaged, or no file of API keys of this version ({type(error).__name__}: {error}); "
                "restore it, or remove it and make the keys anew"
            ) from error

    def _write(self, keys: list[ApiKey]) -> None:
        plain = [asdict(key) for key in keys]
        stored = {"version": _VERSION, "checksum": _checksum(plain), "keys": plain}
        text = json.dumps(stored, indent=2, ensure_ascii=False) + "\n"
        before = os.umask(0o077)
        try:
            write_durably(self.path, [text.encode()], replace=True)
        finally:
            os.umask(before)
        self._keys = {key.id: key for key in keys}
        self._seen = None


def key_file(kb: Path, chosen: Path | None) -> KeyFile:
    """Return the file of keys that a knowledge base's service uses."""
    return KeyFile(chosen or kb / KEY_FILE)


def _checksum(keys: list[dict[str, Any]]) -> str:
    return _sha256(json.dumps(keys, sort_keys=True))


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
