"""Other names of documents, kept by a service: listed, looked up, given, taken away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from kbengine.terminal.service import Service


def listed_names(
    service: Service, *, doc_id: str | None, prefix: str | None, source: str | None, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return names as `aliases list` shows them, and where the page after them begins; None on the last.

    Raises:
        ServiceRefusedError: the service is not there, or refuses.
    """
    rows: list[dict[str, Any]] = []
    token = after
    while True:
        asked = {"document": doc_id, "prefix": prefix, "source": source, "page_token": token}
        asked["limit"] = str(min(limit - len(rows), 200))
        page = service.get(f"/v1/aliases?{urlencode({name: value for name, value in asked.items() if value})}")
        for each in page["aliases"]:
            row = {"alias": each["alias"], "doc_id": each["document"], "title": each["title"]}
            rows.append(row | {name: each[name] for name in ("source", "uses")} | {"prior": round(each["prior"], 6)})
        token = page["next_page_token"]
        if not token or len(rows) >= limit:
            return rows, token


def matching_names(service: Service, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return what names can mean as `aliases match` shows it; raises as `listed_names` does."""
    return [
        {
            "name": name,
            "doc_id": each["document"],
            "title": each["title"],
            "alias": each["alias"],
            "form": each["form"],
            "prior": round(each["prior"], 6),
        }
        for name in names
        for each in service.get(f"/v1/aliases/matches?{urlencode({'name': name})}")["matches"]
    ]


def add_names(
    service: Service, doc_id: str, names: Sequence[str], *, prior: float | None, replace: bool
) -> dict[str, int]:
    """Give a document other names and return what was done; raises as `listed_names` does."""
    body = {"document": doc_id, "aliases": list(names), "prior": prior, "replace": replace}
    done = service.post("/v1/aliases", body)
    return {"added": done["aliases"], "generation": done["generation"]}


def delete_names(service: Service, doc_id: str, names: Sequence[str] | None) -> dict[str, int]:
    """Take names from a document, all of them without `names`; raises as `listed_names` does."""
    done = service.post("/v1/aliases:delete", {"document": doc_id, "aliases": None if names is None else list(names)})
    return {"deleted": done["aliases"], "generation": done["generation"]}
