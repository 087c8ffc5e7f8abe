"""What everything printed has in common: aligned tables that fit a terminal, JSON for programs, sizes and times that people read."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

json_option: Callable[[click.decorators.FC], click.decorators.FC] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for programs instead of a table."
)

bootstrap_option: Callable[[click.decorators.FC], click.decorators.FC] = click.option(
    "-b",
    "--bootstrap-servers",
    default="127.0.0.1:9092",
    envvar="TIDELOG_BOOTSTRAP_SERVERS",
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT[,...]",
    help="The brokers to ask first; tidelog's or Apache Kafka's.",
)


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str = "nothing found") -> None:
    """Print rows as an aligned table, or all their fields as JSON; numbers stand to the right."""
    if as_json:
        click.echo(json.dumps(list(rows), indent=2, default=str))
        return
    if not rows:
        click.echo(empty)
        return
    click.echo(aligned(rows, columns))


def aligned(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows under their column names, two blanks apart."""
    cells = [[readable(row.get(column)) for column in columns] for row in rows]
    is_number = [all(isinstance(row.get(column), int | float | None) for row in rows) for column in columns]
    widths = [max(len(column), *(len(line[index]) for line in cells)) for index, column in enumerate(columns)]

    def line_of(texts: Sequence[str]) -> str:
        placed = [text.rjust(width) if right else text.ljust(width) for text, width, right in zip(texts, widths, is_number, strict=True)]
        return "  ".join(placed).rstrip()

    return "\n".join([line_of([column.upper() for column in columns]), *(line_of(line) for line in cells)])


def readable(value: Any) -> str:
    """Return a cell's text; nothing is a dash, several things are joined by commas."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(part) for part in value)
    return str(value)
