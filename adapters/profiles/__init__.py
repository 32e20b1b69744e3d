"""An entity's card: what it is called, what it is, and the values of the relations that its kind usually has."""
