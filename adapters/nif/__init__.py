"""NIF 2.0, the RDF in which GERBIL and ELEVANT send texts and read links."""
