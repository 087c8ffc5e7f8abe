"""Prints values as JSON in small steps and within bounds.

Values come from records of any producer. The C encoder of ``json`` lets no other thread run until
it is done, so long values are printed token by token.
"""

import json
from typing import Any, Final

MAX_DEPTH: Final = 100
"""Deeper values are not written, because ``json`` writes nested values by recursion."""
FOLDED_CHARACTERS: Final = 64 << 10
"""How many characters are compared at a time without regard to case."""
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_PRETTY: Final = json.JSONEncoder(ensure_ascii=False, indent=2)


def json_text(value: Any, *, is_long: bool) -> str:
    """Return a value as JSON. With ``is_long`` other threads can run meanwhile."""
    return "".join(_ENCODER.iterencode(value)) if is_long else _ENCODER.encode(value)


def start_of(value: Any, most: int, *, is_pretty: bool = False) -> str:
    """Return a value as JSON, cut off soon after ``most`` characters.

    With ``is_pretty`` it is indented on several lines.
    """
    pieces: list[str] = []
    count = 0
    for piece in (_PRETTY if is_pretty else _ENCODER).iterencode(value):
        pieces.append(piece)
        count += len(piece)
        if count > most:
            break
    return "".join(pieces)


def contains_folded(text: str, wanted: str) -> bool:
    """Return whether a text contains another one, without regard to case."""
    folded = wanted.casefold()
    length = FOLDED_CHARACTERS + len(folded)
    starts = range(0, len(text) or 1, FOLDED_CHARACTERS)
    return any(folded in text[start : start + length].casefold() for start in starts)


def is_deep(value: Any) -> bool:
    """Return whether a value is nested deeper than ``MAX_DEPTH``."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += each.values()
            elif isinstance(each, list):
                below += each
        if not below:
            return False
        level = below
    return True
