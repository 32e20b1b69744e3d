"""Query-side fine-tuning by task: training files in, scores before and after out."""
