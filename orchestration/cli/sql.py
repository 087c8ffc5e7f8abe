"""``tidelog sql``: a question in SQL over tables, marts, dead letters and topics."""

import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from log_service.cli.output import json_option, print_json, print_rows
from orchestration.importing import kept_imports

TIMEOUT_MS = 10_000
"""Of each request to the log service: a person waits for the answer."""

DECLARED: Mapping[str, str] = {
    "marts": "The project declares the mart {name}, and it was never built: that happens once what it reads has rows.",
    "lake": "The project declares the table {name}, and nothing was committed to it yet: that happens once its topic has records.",
    "topics": "{name} is a topic of the project: SELECT ... FROM topics.{name}",
}
"""What is said of a relation that is not there yet, by the first part of its asset's key."""


@click.command()
@click.argument("question", metavar="SELECT", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option("--archived", is_flag=True, help="Ask no broker: topics are what the lake has archived of them.")
@json_option
def sql(*, question: str | None, as_csv: bool, archived: bool, as_json: bool) -> None:
    """Answer a question in SQL (DuckDB's), read from standard input where none is given.

    Relations are the tables of the lake and the marts by their names, `dead_letters`, and `topics.NAME` for any topic of the log
    service: with the columns _partition, _offset, _timestamp, _key, _value, _bytes, _headers and, for topics that the project of this
    folder declares with a schema, the fields of their JSON. A topic with an archive is archive and log together. What a question says about
    _partition, _offset and _timestamp decides what is read.

    \b
      tidelog sql "SELECT country, count(*) FROM clean_orders GROUP BY ALL"
      tidelog sql "SELECT * FROM topics.orders WHERE _offset >= 1000"
    """
    asked = question if question is not None else sys.stdin.read()
    if as_csv and as_json:
        raise click.UsageError("--csv or --json, not both")
    if not asked.strip():
        raise click.UsageError('there is no question: tidelog sql "SELECT ..."')
    from orchestration.cli.surroundings import explained, found_settings, project_folder  # noqa: PLC0415 - with the command

    settings = found_settings()
    project_folder()
    with kept_imports():
        from orchestration.ask import IncompleteAnswerWarning, ask  # noqa: PLC0415
        from orchestration.warehouse import UnknownRelationError, WarehouseError  # noqa: PLC0415

    try:
        with explained(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", IncompleteAnswerWarning)
            answer = ask(asked, topics=declared_topics(asked), settings=settings, is_archive_only=archived, timeout_ms=TIMEOUT_MS)
    except UnknownRelationError as error:
        raise click.ClickException(f"{error}{declared_as(error.name)}") from error
    except WarehouseError as error:
        raise click.ClickException(str(error)) from error
    for one in told:
        if issubclass(one.category, IncompleteAnswerWarning):
            click.echo(f"Warning: {one.message}", err=True)
    if as_csv:
        write_csv(answer)
        return
    rows = [{name: plain(value) for name, value in row.items()} for row in answer.to_pylist()]
    if as_json:
        print_json(rows)
        return
    print_rows([{name: shown(value) for name, value in row.items()} for row in rows], answer.column_names, as_json=False, empty="no rows")


def declared_topics(question: str) -> list[Any]:
    """Return the topics that the project of this folder declares; none where the question is about none, or there is no project."""
    from orchestration.topic_relations import topic_names  # noqa: PLC0415 - with the command, not with its help

    if not topic_names(question) or not is_project_here():
        return []
    from orchestration.cli.surroundings import loaded_project  # noqa: PLC0415
    from orchestration.topics import topic_specs  # noqa: PLC0415

    return list(topic_specs(loaded_project().get_repository_def().assets_defs_by_key.values()))


def is_project_here() -> bool:
    """Whether the current folder is a project."""
    from orchestration.projects import ASSETS  # noqa: PLC0415 - with the command, not with its help

    return (Path.cwd() / ASSETS / "__init__.py").is_file()


def declared_as(name: str) -> str:
    """Return a line on what the project here declares by the name of a relation that is not there; empty where that is nothing."""
    if not is_project_here():
        return ""
    from orchestration.cli.surroundings import loaded_project  # noqa: PLC0415 - with the command, not with its help

    try:
        keys = loaded_project().get_repository_def().assets_defs_by_key
    except click.ClickException:
        return ""
    found = sorted({key.path[0] for key in keys if key.path[1:] == [name]} & set(DECLARED), key=list(DECLARED).index)
    return f"\n{DECLARED[found[0]].format(name=name)}" if found else ""


def write_csv(answer: Any) -> None:
    """Write an answer as comma-separated values."""
    import csv  # noqa: PLC0415 - with the command, not with its help

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.column_names)
    for batch in answer.to_batches():
        for row in batch.to_pylist():
            writer.writerow(["" if value is None else plain(value) for value in row.values()])


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: bytes and what else JSON lacks as text."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def shown(value: Any) -> Any:
    """Return a value as it stands in a table."""
    return "" if value is None else value if isinstance(value, str | int | float | bool) else str(value)
