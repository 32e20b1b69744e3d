"""The bodies of the API: what is read, checked field by field, and what is answered."""
