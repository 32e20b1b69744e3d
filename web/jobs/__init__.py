"""Jobs: work that takes longer than a request may, kept on disk beside the knowledge base until it is done."""
