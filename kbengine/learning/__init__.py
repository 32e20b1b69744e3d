"""Everything that trains: phrase encoders, readers, sparse heads, query encoders, and the data they learn from."""
