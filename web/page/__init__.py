"""The web page: search, documents and the state of the knowledge base, rendered by the server."""

from web.page.blueprint import page
from web.page.json_answers import json_answers

__all__ = ["json_answers", "page"]
