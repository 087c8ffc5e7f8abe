"""Decides whether a regular expression of a schema can be read at all.

Expressions are in the syntax of ECMA-262, and clients run them in the syntax of their language. So
this file refuses only faults that every syntax has: an open group or class, nothing to repeat, a
range that runs backwards. It reads each character once, and never runs an expression.
"""

import re

_TOKEN = re.compile(
    r"""
    (?P<group> \( (?: \? (?: [:=!>] | <[=!] | P?<\w+> | [a-zA-Z-]+:? ) )? )
    | (?P<close> \) )
    | (?P<class> \[ \^? )
    | (?P<repeat> [*+?] | \{ \d{1,9} (?: ,\d{0,9} )? \} )
    | (?P<alternative> \| )
    | (?P<plain> \\. | [^\\()\[*+?{|]+ | \{ )
    """,
    re.VERBOSE | re.DOTALL,
)
_CLASS_ITEM = re.compile(r"\\.|[^\\]", re.DOTALL)
_NOTHING = 2
"""The number of repetitions after which another one is a fault, because nothing can be repeated."""


def regex_fault(regex: str) -> str | None:
    """Return the fault of a regular expression, or None if it has none."""
    depth = index = 0
    repetitions = _NOTHING
    while index < len(regex):
        start, found = index, _TOKEN.match(regex, index)
        if found is None:
            return "a backslash at the end"
        index = found.end()
        fault = None
        match found.lastgroup:
            case "repeat":
                fault, repetitions = _repeat_fault(found[0], repetitions), repetitions + 1
            case "group":
                depth, repetitions = depth + 1, _NOTHING
            case "close":
                depth, repetitions = depth - 1, 0
                fault = "an unmatched )" if depth < 0 else None
            case "class":
                (index, fault), repetitions = _class_end(regex, index), 0
            case "alternative":
                repetitions = _NOTHING
            case _:
                repetitions = 0
        if fault is not None:
            return f"{fault} at character {start}"
    return f"{depth} groups are not closed" if depth else None


def _repeat_fault(sign: str, repetitions: int) -> str | None:
    """Return the fault of a repetition sign, or None if it has none.

    A second sign (``?`` or ``+``) makes the first one lazy or possessive.
    """
    if repetitions >= _NOTHING or (repetitions == 1 and sign not in "?+"):
        return f"nothing to repeat for {sign}"
    low, _, high = sign.strip("{}").partition(",")
    return f"a range that runs backwards, {sign}," if high and int(low) > int(high) else None


def _class_end(regex: str, start: int) -> tuple[int, str | None]:
    """Return the index after a character class, and the fault of the class or None."""
    index, low = start, ""
    while found := _CLASS_ITEM.match(regex, index):
        item, index = found[0], found.end()
        if item == "]":
            return index, None
        high = _CLASS_ITEM.match(regex, index) if item == "-" and low else None
        if high is None or high[0] == "]":
            low = item
            continue
        if len(low) == len(high[0]) == 1 and low > high[0] != "[":
            return index, f"a range that runs backwards, {low}-{high[0]},"
        index, low = high.end(), ""
    return index, "an open class"
