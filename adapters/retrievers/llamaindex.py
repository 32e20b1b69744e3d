"""A retriever for LlamaIndex (extra `llamaindex`)."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from adapters.knowledge_base import KnowledgeBase
from adapters.retrievers.texts import checked_unit, find_texts


class KnowledgeBaseRetriever(BaseRetriever):  # type: ignore[misc]  # of an extra, which mypy does not follow
    """A knowledge base as a LlamaIndex retriever.

        retriever = KnowledgeBaseRetriever(kb, similarity_top_k=4)
        retriever.retrieve("Who wrote The Trial?")

    Each node has a passage as text, its place as id, the knowledge base's document as its source, and in `metadata`
    where it stands. Errors are those of `KnowledgeBase.search`.

    Args:
        knowledge_base: what is searched; who opened it closes it.
        similarity_top_k: how many nodes come back.
        unit: what they are: `passage`, `sentence`, `document` (the best passage of each) or `phrase`.
        where: a filter over the fields of documents.
        **chosen: of LlamaIndex's retrievers, such as `callback_manager`.
    """

    def __init__(
        self,
        knowledge_base: KnowledgeBase,
        *,
        similarity_top_k: int = 4,
        unit: str = "passage",
        where: str | None = None,
        **chosen: Any,
    ) -> None:
        super().__init__(**chosen)
        self._knowledge_base = knowledge_base
        self.similarity_top_k = similarity_top_k
        self._unit = checked_unit(unit)
        self._where = where

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = find_texts(
            self._knowledge_base,
            query_bundle.query_str,
            k=self.similarity_top_k,
            unit=self._unit,
            where=self._where,
        )
        return [
            NodeWithScore(
                node=TextNode(
                    id_=each.id,
                    text=each.text,
                    metadata=dict(each.metadata),
                    relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=each.metadata["id"])},
                ),
                score=each.score,
            )
            for each in found
        ]
