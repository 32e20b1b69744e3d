"""The reader: a cross-encoder that reads a query and a passage together and says where the answer stands."""
