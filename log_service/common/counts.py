"""Formats counts with their nouns, in the same way in all texts for people."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 record, 2,000 records."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def agreed(count: int, one: str, several: str) -> str:
    """Return the verb or pronoun that goes with a count: ``one`` for 1, or else ``several``."""
    return one if count == 1 else several
