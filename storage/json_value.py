"""The values that JSON has: of a document's fields and of settings. Imported without arrays, so that clients can."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["JSON"]

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
