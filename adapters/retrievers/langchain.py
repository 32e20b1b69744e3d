"""A retriever for LangChain (extra `langchain`)."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from adapters.knowledge_base import KnowledgeBase
from adapters.retrievers.texts import find_texts


class KnowledgeBaseRetriever(BaseRetriever):  # type: ignore[misc]  # of an extra, which mypy does not follow
    """A knowledge base as a LangChain retriever.

        retriever = KnowledgeBaseRetriever(knowledge_base=kb, k=4)
        retriever.invoke("Who wrote The Trial?")

    Each document has a passage as `page_content`, its place as `id`, and in `metadata` the knowledge base's document
    (`id`, `title`, `url`, `fields`), the paragraph and the best phrase in it. `k`, `unit` and `where` can be given to
    `invoke`, too. Errors are those of `KnowledgeBase.search`.

    Attributes:
        knowledge_base: What is searched; who opened it closes it.
        k: How many documents come back.
        unit: What they are: `passage`, `sentence`, `document` (the best passage of each) or `phrase`.
        where: A filter over the fields of documents.
    """

    knowledge_base: KnowledgeBase
    k: int = 4
    unit: Literal["phrase", "sentence", "passage", "document"] = "passage"
    where: str | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002  (LangChain names it)
        **chosen: Any,
    ) -> list[Document]:
        options = {"k": self.k, "unit": self.unit, "where": self.where, **chosen}
        return [
            Document(page_content=each.text, id=each.id, metadata=dict(each.metadata))
            for each in find_texts(self.knowledge_base, query, **options)
        ]
