"""The JSON API, one module a group of routes."""
