"""The same request as code: curl for the JSON API, Python for a program of one's own."""
