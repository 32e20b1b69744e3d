"""Reading one passage: the cross-encoder reader, answer scores, and how well an encoder or a reader reads."""
