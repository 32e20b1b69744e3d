"""Entity linking in the words of other linkers: REL's API and NIF, as GERBIL and ELEVANT ask."""
