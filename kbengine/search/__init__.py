"""From a query's vectors and words to hits: candidates, scores, aggregation to the unit wanted, texts."""
