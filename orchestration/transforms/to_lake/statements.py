"""Transforms written in SQL: a statement over named DataFrames becomes a function.

The function takes DataFrames and returns one. Decides which statements are valid, and which need no
SQL. A plain choice of known columns is passed to Spark as a select, so that Arrow can compute it
(``projection``). Every other statement is one query to Spark, in which the DataFrames are relations
under their names.
Invariant: both ways return the same columns and rows.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions

from orchestration.lake.tables import PROVENANCE
from orchestration.transforms.declarations import Transform
from orchestration.transforms.errors import TransformError, described
from orchestration.transforms.result_columns import named_results

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
ITEM = rf"{NAME}(?:\s+AS\s+{NAME})?"
CHOICE = re.compile(
    rf"\s*SELECT\s+({ITEM}(?:\s*,\s*{ITEM})*)\s+FROM\s+(?:({NAME})|`([^`]+)`)\s*", re.IGNORECASE
)
WORD = re.compile(NAME)


def sql_transform(
    statement: str,
    relations: Sequence[str],
    *,
    place: str,
    description: str = "",
    columns: Collection[str] = (),
) -> Transform:
    """Return the function that computes ``statement`` over one DataFrame per relation.

    The statement names the ``relations``. ``place`` says where the statement was written, for
    errors. ``columns`` are those of a single relation, as far as they are known.

    :raises ValueError: the statement is empty, or names none of the relations.
    """
    text = statement.strip().rstrip(";").rstrip()
    if not text:
        raise ValueError("sql is empty: write one SELECT")
    unnamed = [one for one in relations if one not in text]
    if unnamed:
        raise ValueError(
            f"sql does not read {', '.join(unnamed)}: write FROM {quoted(unnamed[0])}, or take it"
            " out of the declaration"
        )
    chosen = plain_choice(text, relations[0], columns) if len(relations) == 1 else None
    question = asked(text, relations)

    def transform(*frames: Any) -> Any:
        if chosen is not None:
            return frames[0].select(
                *(functions.col(source).alias(name) for name, source in chosen.items())
            )
        try:
            return frames[0].sparkSession.sql(
                question, **{given(number): frame for number, frame in enumerate(frames)}
            )
        except PySparkException as error:
            raise TransformError(
                f"{place}: Spark refuses the SQL: {described(error)}. Nothing was committed; change"
                " the sql there"
            ) from error

    transform.__doc__ = f"{description}\n\n```sql\n{text}\n```".strip()
    transform.columns = named_results(text) if chosen is None else tuple(chosen)  # type: ignore[attr-defined]  # of the result, if they are known
    transform.statement = text  # type: ignore[attr-defined]  # tells one such function from another
    return transform


def validate_provenance(statement: str) -> None:
    """Refuse a statement over a topic whose result lacks the columns of provenance.

    :raises ValueError: names the columns that it lacks.
    """
    words = set(WORD.findall(statement))
    missing = [column for column in PROVENANCE if column not in words]
    if missing and "*" not in statement:
        raise ValueError(
            f"sql does not select {', '.join(missing)}: every row has to say which record it came"
            " from; add these columns"
        )


def plain_choice(
    statement: str, relation: str, columns: Collection[str]
) -> Mapping[str, str] | None:
    """Return, by its name, the source of each column of a statement that only chooses columns.

    Return None if the statement is more than a choice of known ``columns``.
    """
    found = CHOICE.fullmatch(statement)
    if found is None or (found[2] or found[3]).lower() != relation.lower():
        return None
    chosen: dict[str, str] = {}
    for item in found[1].split(","):
        words = item.split()
        if words[0] not in columns or words[-1] in chosen:
            return None
        chosen[words[-1]] = words[0]
    return chosen


def asked(statement: str, relations: Sequence[str]) -> str:
    """Return a query for ``session.sql`` that runs ``statement`` over DataFrames.

    The query names the DataFrames ``{given_0}`` and so on.
    """
    known = ", ".join(
        f"{quoted(name)} AS (SELECT * FROM {{{given(number)}}})"  # noqa: S608
        for number, name in enumerate(relations)
    )
    literal = statement.replace("{", "{{").replace("}", "}}")
    return f"WITH {known} SELECT * FROM (\n{literal}\n)"  # noqa: S608 - the author's own statement


def given(number: int) -> str:
    """Return the name of the DataFrame ``number`` in a query for Spark."""
    return f"given_{number}"


def quoted(name: str) -> str:
    """Return a relation's name as Spark's SQL accepts it."""
    return name if WORD.fullmatch(name) else f"`{name}`"
