"""Query-side fine-tuning: the index stays, the query encoder learns what it should find in it."""
