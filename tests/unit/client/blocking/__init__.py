"""The blocking classes, in real threads."""
