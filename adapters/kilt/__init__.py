"""KILT: reading task files, writing and linting submissions, scoring them as the official evaluators do."""
