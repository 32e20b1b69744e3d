"""kbengine: a knowledge base whose only index is phrases."""

__version__ = "0.1.0"
