"""From a corpus to a knowledge base on disk: encoding, filtering, indexing, checking, exporting."""
