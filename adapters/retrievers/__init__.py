"""Retrievers for frameworks of retrieval-augmented generation, one file a framework, each an extra of its own."""
