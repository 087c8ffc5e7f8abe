"""Conditions in SQL that cannot be read, told when they are declared: Spark, which knows better, starts later.

Decides by the text alone: quotes and brackets that are not closed, an operator without its other side, a second statement. A condition of
which this is not certain passes, and Spark names it in the first run. So do columns that there are not, which only the result tells.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

TOKEN = re.compile(
    r"""(?P<raw>\b[rR](?:'[^']*'|"[^"]*"))|(?P<quoted>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)|(?P<comment>--[^\n]*|/\*.*?\*/)"""
    r"""|(?P<word>[\w.]+)|(?P<operator><=>|>>>|>>|<<|<=|>=|<>|!=|==|=>|->|\|\||[=<>+*/%&|^-])|(?P<space>\s+)|(?P<mark>.)""",
    re.DOTALL,
)
CLOSED_BY = {"(": ")", "[": "]"}
COMPARISONS = frozenset(("=", "==", "<", ">", "<=", ">=", "<>", "!=", "<=>"))
NEVER_FIRST = COMPARISONS | {"*", "/", "%", "||", "AND", "OR", "LIKE", "IN", "IS", "BETWEEN"}
NEVER_LAST = COMPARISONS | {"+", "-", "*", "/", "%", "||", "AND", "OR", "NOT", "LIKE", "IN", "IS", "BETWEEN", ","}


def validate_condition(what: str, condition: str) -> None:
    """Refuse a condition that no SQL can be.

    :raises ValueError: begins with ``what`` and says what is wrong.
    """
    if not condition.strip():
        raise ValueError(f"{what} has no condition")
    fault = next(_faults(condition), None)
    if fault is not None:
        raise ValueError(f"{what} cannot be read as SQL, {condition!r}: {fault}")


def _faults(condition: str) -> Iterator[str]:
    tokens = [(str(one.lastgroup), one[0]) for one in TOKEN.finditer(condition)]
    if tokens[-1][0] == "comment" and tokens[-1][1].startswith("--"):
        yield "it ends with a comment, which hides what comes behind it"
    told = [(kind, text) for kind, text in tokens if kind not in {"space", "comment"}]
    is_open: list[str] = []
    for kind, text in told:
        if kind != "mark":
            continue
        if text in {"'", '"', "`"}:
            yield f"a quote {text} is not closed"
        if text == ";":
            yield "a condition has no ;"
        if text in CLOSED_BY:
            is_open.append(text)
        elif text in CLOSED_BY.values() and (not is_open or CLOSED_BY[is_open.pop()] != text):
            yield f"a {text} closes nothing"
    if is_open:
        yield f"a {is_open[-1]} is not closed"
    words = [text.upper() if kind in {"word", "operator", "mark"} else "" for kind, text in told]
    if words and words[0] in NEVER_FIRST:
        yield f"nothing is before {told[0][1]}"
    if words and words[-1] in NEVER_LAST:
        yield f"nothing is behind {told[-1][1]}"
    yield from (f"{one} and {other} follow each other" for one, other in pairwise(words) if {one, other} <= COMPARISONS)
