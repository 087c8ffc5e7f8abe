"""The columns of a transform's result, as far as they are known without Spark.

Rules, keys and marts that name other columns are refused when the project loads. A statement in SQL
names its columns. A function in Python shows them if each of its returns ends in a ``select`` of
named columns from a parameter, perhaps filtered or sorted afterwards. The function's source is
read, and the function is never called.
Invariant: columns are returned only if every run returns just these.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import dedent
from typing import Any

from orchestration.quality.conditions import parsed

UNCHANGED = frozenset(
    (
        "coalesce",
        "distinct",
        "dropDuplicates",
        "filter",
        "limit",
        "orderBy",
        "repartition",
        "sort",
        "where",
    )
)
"""Methods of a DataFrame that return the same columns."""
NOT_PLAIN = frozenset("*`")
"""Characters of a name by which ``select`` may mean another column, or several."""
NAMING = frozenset(("alias", "col", "column"))
"""Calls with one text that is the name of the column that they return."""
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def result_columns(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the columns of a function's result, None if they are not known before a run."""
    declared: tuple[str, ...] | None = getattr(function, "columns", None)
    if declared is not None or hasattr(function, "statement") or hasattr(function, "__wrapped__"):
        return declared
    try:
        tree = ast.parse(dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    written = tree.body[0] if tree.body else None
    if not isinstance(written, ast.FunctionDef) or written.name != getattr(
        function, "__name__", None
    ):
        return None
    parameters = {one.arg for one in [*written.args.posonlyargs, *written.args.args]}
    found = {_selected(one.value, parameters) for one in _returns(written.body)}
    return found.pop() if len(found) == 1 else None


def _returns(statements: Sequence[ast.AST]) -> Iterator[ast.Return]:
    """Yield the return statements of a function, without those of inner functions."""
    for one in statements:
        if isinstance(one, ast.Return):
            yield one
        elif not isinstance(one, Scope):
            yield from _returns(list(ast.iter_child_nodes(one)))


def _selected(result: ast.expr | None, parameters: set[str]) -> tuple[str, ...] | None:
    while isinstance(result, ast.Call) and isinstance(result.func, ast.Attribute):
        called, before = result.func.attr, result.func.value
        if called in SELECTS:
            if result.keywords or not _is_of_parameter(before, parameters):
                return None
            names = [SELECTS[called](one) for one in _items(result.args)]
            columns = tuple(name for name in names if name is not None)
            return columns if columns and len(columns) == len(names) else None
        if called not in UNCHANGED:
            return None
        result = before
    return None


def _is_of_parameter(value: ast.expr, parameters: set[str]) -> bool:
    """Return whether a value is a parameter, or the result of methods called on one."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    return isinstance(value, ast.Name) and value.id in parameters


def _items(arguments: Sequence[ast.expr]) -> Sequence[ast.expr]:
    """Return the columns given to a ``select``, one by one or as one list."""
    if len(arguments) == 1 and isinstance(arguments[0], ast.List | ast.Tuple):
        return arguments[0].elts
    return arguments


def _named(argument: ast.expr) -> str | None:
    """Return the name of the column that an argument of ``select`` makes, None if not known.

    The argument is a plain text, a column by its name (``col("id")``, ``records["id"]``,
    ``records.id``), or an expression with an alias.
    """
    if isinstance(argument, ast.Call):
        called = (
            argument.func.attr
            if isinstance(argument.func, ast.Attribute)
            else getattr(argument.func, "id", "")
        )
        is_plain = called in NAMING and len(argument.args) == 1 and not argument.keywords
        return _plain_text(argument.args[0]) if is_plain else None
    if isinstance(argument, ast.Attribute):
        return argument.attr if isinstance(argument.value, ast.Name) else None
    return _plain_text(argument.slice if isinstance(argument, ast.Subscript) else argument)


def _plain_text(value: ast.expr) -> str | None:
    """Return the column that a constant text names, None for anything else.

    A field of a struct becomes a column with the name of the field.
    """
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        return None
    return None if NOT_PLAIN & set(value.value) else value.value.rpartition(".")[2]


def _named_expression(argument: ast.expr) -> str | None:
    """Return the name of the column that an argument of ``selectExpr`` makes, None if not known."""
    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
        return None
    names = named_results(f"SELECT {argument.value}")
    return names[0] if names is not None and len(names) == 1 else None


SELECTS: Mapping[str, Callable[[ast.expr], str | None]] = {
    "select": _named,
    "selectExpr": _named_expression,
}
"""Methods of a DataFrame that choose columns, and the name of a column by its argument."""


def named_results(statement: str) -> tuple[str, ...] | None:
    """Return the columns of the result of ``statement``.

    Return None if only Spark knows them. That is so for a star, an expression without a name, or a
    statement that DuckDB does not understand.
    """
    nodes = parsed(statement)
    if len(nodes) != 1 or nodes[0].get("type") != "SELECT_NODE":
        return None
    names = []
    for item in nodes[0]["select_list"]:
        name = item["alias"] or (item["column_names"][-1] if item["class"] == "COLUMN_REF" else "")
        if not name:
            return None
        names.append(name)
    return tuple(names)
