"""Commands that are long enough for a module of their own; the command line loads them when they are asked for."""
