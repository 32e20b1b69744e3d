"""The parts of OpenAI's API that a knowledge base can answer: search of a vector store, models, embeddings."""
