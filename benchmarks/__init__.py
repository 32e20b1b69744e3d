"""One claim a script: what kbengine promises about speed, size and quality, measured as the command line runs it."""

from kbengine.terminal.threads import set_thread_defaults

set_thread_defaults()  # before any script imports torch, faiss or numpy
