"""Encoders: passages to token vectors, queries to start, end and passage vectors."""
