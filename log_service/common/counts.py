"""Counts with their nouns, as all sentences for people have them."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 record, 2,000 records."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def agreed(count: int, one: str, several: str) -> str:
    """Return the form of a verb or pronoun that goes with a count: is or are."""
    return one if count == 1 else several
