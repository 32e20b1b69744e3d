"""Which other pages a browser lets read what only reads: those of tools such as OpenRefine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from web.settings import ServiceSettings

LOCAL_PAGES = r"^https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$"
"""Pages that programs of this machine serve, as OpenRefine does."""
_LOCAL_SOURCES = tuple(
    f"{scheme}://{host}:*" for scheme in ("http", "https") for host in ("localhost", "127.0.0.1", "[::1]")
)


def reading_origins(settings: ServiceSettings) -> list[str]:
    """Return the origins, as regular expressions, whose pages may read what is shared with tools.

    With keys all of them, as the standard wants it: a page has no key. Without keys those of this machine and those
    that the operator lists: any page that the operator's browser shows could read the knowledge base otherwise.
    """
    if settings.needs_key:
        return [".*"]
    return [LOCAL_PAGES, *(f"^{re.escape(each)}$" for each in settings.cors_origins)]


def may_read(origin: str, settings: ServiceSettings) -> bool:
    """Tell whether the pages of an origin may read what is shared with tools."""
    return any(re.match(pattern, origin) for pattern in reading_origins(settings))


def embedding_origins(settings: ServiceSettings) -> list[str]:
    """Return the same origins as sources of a content security policy."""
    return ["*"] if settings.needs_key else ["'self'", *_LOCAL_SOURCES, *settings.cors_origins]
