"""The knowledge-base directory: SQLite metadata, vector segments, indexes, the commit protocol; no torch, no Flask."""
