"""Finds SQL conditions that are malformed when they are declared, because Spark starts only later.

Decides by the text alone: quotes and brackets that are not closed, an operator without an operand,
a second statement. A doubtful condition passes, and Spark names it in the first run.
``named_columns`` returns the columns of a condition, for declarations that know the columns of the
result. It is empty if DuckDB, which reads almost the same SQL, does not understand the condition.
"""

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from orchestration.lake.quoting import quoted_text

if TYPE_CHECKING:
    import duckdb

TOKEN = re.compile(
    r"""(?P<raw>\b[rR](?:'[^']*'|"[^"]*"))|(?P<quoted>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)|(?P<comment>--[^\n]*|/\*.*?\*/)"""
    r"""|(?P<word>[\w.]+)|(?P<operator><=>|>>>|>>|<<|<=|>=|<>|!=|==|=>|->|\|\||[=<>+*/%&|^-])|(?P<space>\s+)|(?P<mark>.)""",
    re.DOTALL,
)
CLOSED_BY = {"(": ")", "[": "]"}
COMPARISONS = frozenset(("=", "==", "<", ">", "<=", ">=", "<>", "!=", "<=>"))
NEVER_FIRST = COMPARISONS | {"*", "/", "%", "||", "AND", "OR", "LIKE", "IN", "IS", "BETWEEN"}
LAMBDA = "->"
NO_COLUMNS = frozenset(
    (
        *(
            "current_catalog",
            "current_database",
            "current_date",
            "current_schema",
            "current_time",
            "current_timestamp",
        ),
        *("current_timezone", "current_user", "localtimestamp", "session_user", "user"),
        *(
            "year",
            "quarter",
            "month",
            "week",
            "day",
            "dayofyear",
            "hour",
            "minute",
            "second",
            "millisecond",
            "microsecond",
        ),
    )
)
"""Words of SQL that look like columns: functions without brackets, and units of time."""
NEVER_LAST = COMPARISONS | {
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "AND",
    "OR",
    "NOT",
    "LIKE",
    "IN",
    "IS",
    "BETWEEN",
    ",",
}


def validate_condition(what: str, condition: str) -> None:
    """Refuse a condition that cannot be SQL.

    :raises ValueError: begins with ``what`` and names the fault.
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
    significant = [(kind, text) for kind, text in tokens if kind not in {"space", "comment"}]
    is_open: list[str] = []
    for kind, text in significant:
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
    words = [
        text.upper() if kind in {"word", "operator", "mark"} else "" for kind, text in significant
    ]
    if words and words[0] in NEVER_FIRST:
        yield f"nothing is before {significant[0][1]}"
    if words and words[-1] in NEVER_LAST:
        yield f"nothing is behind {significant[-1][1]}"
    yield from (
        f"{one} and {other} follow each other"
        for one, other in pairwise(words)
        if {one, other} <= COMPARISONS
    )


def named_columns(condition: str) -> tuple[str, ...]:
    """Return the columns that a condition names, in lower case.

    A field of a struct counts as the struct.
    """
    tokens = [(str(one.lastgroup), one[0]) for one in TOKEN.finditer(condition)]
    if (("operator", LAMBDA)) in tokens:  # its arguments look like columns
        return ()
    plain = "".join(
        quoted_text(text[1:-1]) if kind == "quoted" and text[0] == '"' else text
        for kind, text in tokens
    )
    nodes = parsed(f"SELECT * FROM given WHERE ({plain}\n)")  # noqa: S608 - it is parsed and never run
    if not nodes:
        return ()
    found = (names[0].lower() for names in _references(nodes[0].get("where_clause")))
    return tuple(dict.fromkeys(name for name in found if name not in NO_COLUMNS))


def parsed(statement: str) -> list[dict[str, Any]]:
    """Return DuckDB's syntax tree of each statement, none if DuckDB cannot parse them."""
    with _parser(os.getpid()).cursor() as parser:
        (text,) = parser.execute("SELECT json_serialize_sql(?)", [statement]).fetchone() or ("{}",)
    return [one["node"] for one in json.loads(text).get("statements", ())]


@cache
def _parser(_process_id: int) -> "duckdb.DuckDBPyConnection":
    """Return the process's database that only parses, because a new one takes 18 ms.

    A forked process cannot use its parent's, whose threads it does not have.
    """
    import duckdb  # noqa: PLC0415 - for declarations that know their columns

    return duckdb.connect(config={"threads": 1})


def _references(node: Any) -> Iterator[list[str]]:
    """Yield the parts of each column name in a syntax tree, except in subqueries."""
    if isinstance(node, list):
        for one in node:
            yield from _references(one)
    elif isinstance(node, dict) and node.get("class") != "SUBQUERY":
        if node.get("class") == "COLUMN_REF":
            yield node["column_names"]
        for one in node.values():
            yield from _references(one)
