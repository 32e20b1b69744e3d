"""One claim a script: what kbengine promises about speed, size and quality, measured."""
