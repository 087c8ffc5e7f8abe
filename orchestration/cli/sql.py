"""``tidelog sql``: answers a query in SQL over tables, marts, dead letters and topics."""

import json
import sys
import warnings
from collections.abc import Mapping
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

import click

from log_service.cli.output import json_option, print_json, print_rows
from orchestration.cli.table_names import is_project_here
from orchestration.project.importing import kept_imports

if TYPE_CHECKING:
    import pyarrow as pa

    from orchestration.settings import Settings

TIMEOUT_MS = 10_000
"""The limit of each request to the log service, because a person waits for the answer."""

DECLARED: Mapping[str, str] = {
    "marts": (
        "The project declares the mart {name}, and it was never built: that happens once what it"
        " reads has rows."
    ),
    "lake": (
        "The project declares the table {name}, and nothing was committed to it yet. `tidelog up`"
        " starts a run when its topic has records; a run that failed is in the UI, under Runs."
    ),
    "topics": "{name} is a topic of the project: SELECT ... FROM topics.{name}",
}
"""The advice about a relation that does not exist yet, by the first part of its asset's key."""


@click.command()
@click.argument("question", metavar="SELECT", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option(
    "--archived", is_flag=True, help="Ask no broker: topics are what the lake has archived of them."
)
@json_option
def sql(*, question: str | None, as_csv: bool, archived: bool, as_json: bool) -> None:
    """Answer a query in SQL (DuckDB's), read from standard input if none is given.

    Relations are the tables of the lake and the marts by their names, `dead_letters`, and
    `topics.NAME` for any topic of the log service. A topic has the columns _partition, _offset,
    _timestamp, _key, _value, _bytes and _headers. A topic that the project of this folder declares
    with a schema has the fields of its JSON, too. The records of a topic with an archive come from
    archive and log together. The conditions of a query on _partition, _offset and _timestamp decide
    which records are read.

    \b
      tidelog sql "SELECT country, count(*) FROM clean_orders GROUP BY ALL"
      tidelog sql "SELECT * FROM topics.orders WHERE _offset >= 1000"
    """
    asked = question if question is not None else sys.stdin.read()
    if as_csv and as_json:
        raise click.UsageError("--csv or --json, not both")
    if not asked.strip():
        raise click.UsageError('there is no question: tidelog sql "SELECT ..."')
    from orchestration.cli.surroundings import (  # noqa: PLC0415 - with the command
        found_settings,
        project_folder,
    )

    settings = found_settings()
    project_folder()
    answer, notes = answered(asked, settings, is_archive_only=archived)
    for note in notes:
        click.echo(f"Warning: {note}", err=True)
    if as_csv:
        write_csv(answer)
        return
    rows = plain_rows(answer)
    if as_json:
        print_json(rows)
        return
    print_rows(
        [{name: shown(value) for name, value in row.items()} for row in rows],
        answer.column_names,
        as_json=False,
        empty="no rows",
    )


def answered(question: str, settings: "Settings", **how: Any) -> "tuple[pa.Table, list[str]]":
    """Return the answer to a query, and a sentence for each kind of missing records.

    ``how`` are further arguments for ``ask``.

    :raises ClickException: the query cannot be answered.
    """
    from orchestration.cli.surroundings import explained  # noqa: PLC0415 - with the command

    with kept_imports():
        from orchestration.calls.ask import IncompleteAnswerWarning, ask  # noqa: PLC0415
        from orchestration.warehouse.store import (  # noqa: PLC0415
            UnknownRelationError,
            WarehouseError,
        )

    try:
        with explained(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", IncompleteAnswerWarning)
            answer = ask(
                question,
                topics=declared_topics(question),
                settings=settings,
                timeout_ms=TIMEOUT_MS,
                **how,
            )
    except UnknownRelationError as error:
        raise click.ClickException(f"{error}{declared_as(error.name)}") from error
    except WarehouseError as error:
        raise click.ClickException(str(error)) from error
    notes = [
        str(one.message) for one in warned if issubclass(one.category, IncompleteAnswerWarning)
    ]
    return answer, notes


def declared_topics(question: str) -> list[Any]:
    """Return the topics that the project of this folder declares.

    There are none if the query names no topic, or if there is no project.
    """
    from orchestration.warehouse.topics_in_sql import (  # noqa: PLC0415 - with the command, not with its help
        topic_names,
    )

    if not topic_names(question) or not is_project_here():
        return []
    from orchestration.cli.surroundings import loaded_project  # noqa: PLC0415
    from orchestration.topics.spec import topic_specs  # noqa: PLC0415

    return list(topic_specs(loaded_project().get_repository_def().assets_defs_by_key.values()))


def declared_as(name: str) -> str:
    """Return a line which says that the project declares a relation that does not exist yet.

    It is empty if the project declares none of that name.
    """
    if not is_project_here():
        return ""
    from orchestration.cli.surroundings import (  # noqa: PLC0415 - with the command, not with its help
        loaded_project,
    )

    try:
        keys = loaded_project().get_repository_def().assets_defs_by_key
    except click.ClickException:
        return ""
    found = sorted(
        {key.path[0] for key in keys if key.path[1:] == [name]} & set(DECLARED),
        key=list(DECLARED).index,
    )
    return f"\n{DECLARED[found[0]].format(name=name)}" if found else ""


def write_csv(answer: Any) -> None:
    """Write an answer as comma-separated values."""
    import csv  # noqa: PLC0415 - with the command, not with its help

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.column_names)
    for batch in answer.to_batches():
        for row in plain_rows(batch):
            writer.writerow([shown(value) for value in row.values()])


def plain_rows(rows: Any) -> list[dict[str, Any]]:
    """Return the rows of an Arrow table or batch as values that JSON can hold.

    Times beyond the years 1 to 9999, which older releases stored, are texts, too.
    """
    from orchestration.values.times import (  # noqa: PLC0415 - with the command, not with its help
        values_of,
    )

    columns = (
        [plain(value, one.type) for value in values_of(column)]
        for one, column in zip(rows.schema, rows.columns, strict=True)
    )
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain(value: Any, kind: Any) -> Any:
    """Return a value of the Arrow type ``kind`` as a value that JSON can hold.

    A MAP is an object, and its keys are texts. Bytes, times, decimals and numbers that are not
    finite are texts, because JSON has none of them.
    """
    if isinstance(value, dict):
        return {one.name: plain(value[one.name], one.type) for one in kind}
    if isinstance(value, list) and hasattr(kind, "item_type"):
        return {
            _as_key(plain(name, kind.key_type)): plain(one, kind.item_type) for name, one in value
        }
    if isinstance(value, list):
        return [plain(one, kind.value_type) for one in value]
    return _plain_scalar(value)


def _as_key(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def shown(value: Any) -> Any:
    """Return a plain value as one cell of a table. Lists and structures are written as JSON."""
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
