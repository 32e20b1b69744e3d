"""A knowledge base for data people: as Parquet, as N-Triples, as a plain SQLite file."""
