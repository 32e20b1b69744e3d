"""The web page: search, documents and the state of the knowledge base, rendered by the server."""

from web.page.blueprint import page
from web.page.twin import twin

__all__ = ["page", "twin"]
