"""Runs that make what the project ships or reports, from data to figures, each in one command."""
