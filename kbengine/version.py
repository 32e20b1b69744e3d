"""The version, apart from everything that is imported on first use."""

__version__ = "0.1.0"
