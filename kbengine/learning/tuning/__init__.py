"""Query-side fine-tuning on a knowledge base that stays as it is."""
