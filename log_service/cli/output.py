"""Formats the output of commands.

There are tables that fit a terminal, JSON for programs, and sizes and times for people.

Names come from clients. A client that may join a group could choose a name that a terminal would
interpret as control sequences. So control characters in tables, sentences and JSON are written as
escapes. Only records are printed unchanged.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

import click

from log_service.cli.times import as_time
from log_service.common.counts import (
    counted as counted,  # noqa: PLC0414 - commands take it from here
)
from log_service.common.errors import ConfigError
from log_service.common.installation_names import SERVERS_SETTING
from log_service.common.listeners import DEFAULT_BROKER_PORT
from log_service.common.log_lines import escaped, escaped_lines

LEAST_CUT = 8
COMMAND_CONFIG = "tidelog.command_config"
"""The key under which click keeps the file of ``--command-config`` while a command runs."""

DEFAULT_SERVERS = f"127.0.0.1:{DEFAULT_BROKER_PORT}"
DEFAULT_DATA, DATA_SETTING = ".tidelog", "TIDELOG_DATA"
"""The directory of a ``tidelog up``, and the environment variable that names another."""

json_option: Callable[[click.decorators.FC], click.decorators.FC] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for programs instead of a table."
)


def checked_servers(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Return the servers if they are ``host:port``. Used by click while it parses the arguments.

    Raises:
        BadParameter: the servers are malformed.
    """
    if value is None:
        return None
    from log_service.config.client import (  # noqa: PLC0415 - help, and commands that ask no cluster, have no use for it
        parse_servers,
    )

    try:
        parse_servers(value)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error
    return value


def default_servers() -> str:
    """Return the servers that a command uses by default.

    They are the broker or the nodes of a ``tidelog up`` in this directory, else port 9092 of this
    machine.

    Raises:
        StorageError: the installation's file cannot be understood.
    """
    data = Path(os.environ.get(DATA_SETTING) or DEFAULT_DATA)
    if not data.is_dir():
        return DEFAULT_SERVERS
    from log_service.supervisor.nodes import (  # noqa: PLC0415 - most commands have no use for it
        servers_of,
    )

    return ",".join(servers_of(data)) or DEFAULT_SERVERS


def configured_servers() -> str:
    """Return the servers of a command without ``--bootstrap-servers``.

    They are the servers that its settings file names, else ``default_servers()``.

    Raises:
        ConfigError: the settings file cannot be read. StorageError: as ``default_servers``.
    """
    from log_service.client.settings_files import (  # noqa: PLC0415 - as in ``checked_servers``
        servers_from_file,
    )
    from log_service.config.client_properties import (  # noqa: PLC0415 - as in ``checked_servers``
        FILE_VARIABLE,
    )

    named = click.get_current_context().find_root().meta.get(COMMAND_CONFIG) or os.environ.get(
        FILE_VARIABLE
    )
    return (servers_from_file(named) if named else None) or default_servers()


def data_option(text: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """Return the option ``--data``, the directory of a ``tidelog up``. ``text`` is its help."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(DEFAULT_DATA),
        envvar=DATA_SETTING,
        show_default=True,
        show_envvar=True,
        help=text,
    )


servers_option: Callable[[click.decorators.FC], click.decorators.FC] = click.option(
    "-b",
    "--bootstrap-servers",
    default=configured_servers,
    envvar=SERVERS_SETTING,
    show_default=(
        f"bootstrap.servers of --command-config, else those of tidelog up in {DEFAULT_DATA}, else"
        f" {DEFAULT_SERVERS}"
    ),
    show_envvar=True,
    metavar="HOST:PORT[,...]",
    callback=checked_servers,
    help="The brokers to ask first; tidelog's or Apache Kafka's.",
)


def keep_command_config(
    context: click.Context, _parameter: click.Parameter, value: Path | None
) -> None:
    """Store the file of ``--command-config``, for all clients of the command."""
    if value is not None:
        context.find_root().meta[COMMAND_CONFIG] = value


command_config_option: Callable[[click.decorators.FC], click.decorators.FC] = click.option(
    "--command-config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    expose_value=False,
    is_eager=True,
    callback=keep_command_config,
    help=(
        "A file with Kafka's keys for clients: bootstrap.servers, security.protocol, sasl.*, ssl.*;"
        " TIDELOG_CLIENT_CONFIG names one, too."
    ),
)


def bootstrap_option(command: click.decorators.FC) -> click.decorators.FC:
    """Add the options of every command that uses a cluster: its servers and settings."""
    return servers_option(command_config_option(command))


def refuse_both(options: Mapping[str, bool]) -> None:
    """Refuse options that contradict each other.

    Raises:
        UsageError: two of them are given.
    """
    given = [option for option, is_given in options.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other")


def key_values(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Split KEY=VALUE arguments, and refuse an argument without an equals sign."""
    for pair in pairs:
        if not pair.partition("=")[0] or "=" not in pair:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
    return dict(pair.split("=", 1) for pair in pairs)


def terminal_width() -> int | None:
    """Return the columns that a table may take, or None if nothing is cut.

    Piped output is not cut, unless COLUMNS is set.
    """
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return shutil.get_terminal_size((80, 24)).columns
    return None


def cut(text: str, width: int) -> str:
    """Shorten a text to ``width`` characters. Three dots replace its end."""
    return text if len(text) <= width else text[: max(width - 3, 1)] + "..."


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    as_json: bool,
    empty: str = "nothing found",
    flexible: Sequence[str] = (),
    times: Sequence[str] = (),
) -> None:
    """Print rows as an aligned table, or all their fields as JSON. Numbers are aligned right.

    Texts in ``flexible`` columns are cut if the table would not fit into the terminal, the first
    of them first. Columns in ``times`` hold milliseconds since 1970. The table shows them as ISO
    8601 in UTC, under their names without ``_ms``.
    """
    if as_json:
        print_json(list(rows))
        return
    if not rows:
        click.echo(empty)
        return
    width = terminal_width()
    for column in times:
        shown = column.removesuffix("_ms")
        rows = [
            {**row, shown: None if row.get(column) is None else as_time(row[column])}
            for row in rows
        ]
        columns = [shown if each == column else each for each in columns]
    for column in flexible:
        if width is not None:
            rows = narrowed(rows, columns, column, width)
    click.echo(aligned(rows, columns))


def narrowed(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], column: str, width: int
) -> Sequence[Mapping[str, Any]]:
    """Return rows in which one column is cut so that the table fits ``width``.

    The column keeps at least ``LEAST_CUT`` characters.
    """
    if column not in columns:
        return rows
    widths = {
        name: max(len(name), *(len(readable(row.get(name))) for row in rows)) for name in columns
    }
    excess = sum(widths.values()) + 2 * (len(columns) - 1) - width
    if excess <= 0:
        return rows
    room = max(widths[column] - excess, len(column), LEAST_CUT)
    return [{**row, column: cut(readable(row.get(column)), room)} for row in rows]


def print_result(text: str, values: Any, *, as_json: bool) -> None:
    """Print the result of a command as a sentence, or as JSON."""
    if as_json:
        print_json(values)
    else:
        say(text)


def say(text: str, *, err: bool = False) -> None:
    """Print sentences that may contain names, with control characters as escapes."""
    click.echo(escaped_lines(text), err=err)


def for_terminal(text: str) -> str:
    """Return a text for standard output. On a terminal, control characters become escapes.

    A terminal would interpret them.
    """
    return terminal_text(text) if sys.stdout.isatty() else text


def terminal_text(text: str) -> str:
    """Return a text in which all control characters but newlines and tabs are escapes."""
    return "\t".join(map(escaped_lines, text.split("\t")))


def write_records(output: BinaryIO, content: bytes) -> None:
    """Write the content of records. On a terminal, control characters become escapes.

    A pipe or a file gets the content unchanged.
    """
    shown = (
        terminal_text(content.decode(errors="backslashreplace")).encode()
        if output.isatty()
        else content
    )
    rest = memoryview(shown)
    while rest:
        rest = rest[output.write(rest) or 0 :]
    output.flush()


def note(text: str, *, nl: bool = True) -> None:
    """Print progress on standard error. A closed standard error does not end the command."""
    with suppress(BrokenPipeError):
        click.echo(text, nl=nl, err=True)


def even_unread(
    is_so: bool,  # noqa: FBT001 - one argument, as suppress() has
) -> AbstractContextManager[None]:
    """Return a context in which a closed standard output is ignored, if ``is_so``.

    The work after the block is then done even if the output is closed.
    """
    return suppress(BrokenPipeError) if is_so else nullcontext()


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json_text(value))


def json_text(value: Any) -> str:
    """Return a value as JSON of several lines.

    Non-ASCII letters are kept, and control characters become escapes.
    """
    text = json.dumps(value, indent=2, default=str, ensure_ascii=False)
    return "\n".join(
        line if line.isprintable() else "".join(map(_in_json, line)) for line in text.split("\n")
    )


def _in_json(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else json.dumps(character)[1:-1]


def aligned(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as text under their column names, with two spaces between columns."""
    cells = [[readable(row.get(column)) for column in columns] for row in rows]
    is_number = [
        all(isinstance(row.get(column), int | float | None) for row in rows) for column in columns
    ]
    widths = [
        max(len(column), *(len(line[index]) for line in cells))
        for index, column in enumerate(columns)
    ]

    def line_of(texts: Sequence[str]) -> str:
        placed = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(texts, widths, is_number, strict=True)
        ]
        return "  ".join(placed).rstrip()

    return "\n".join(
        [line_of([column.upper() for column in columns]), *(line_of(line) for line in cells)]
    )


def readable(value: Any) -> str:
    """Return a cell's text. None becomes a dash, and commas join several values."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return escaped(",".join(str(part) for part in value))
    return escaped(str(value))


def sized(size_bytes: int) -> str | None:
    """Return a number of bytes for people, such as 512 B, 1.5 KiB or 20 GiB.

    A negative number means that the size is unknown. The result is then None.
    """
    if size_bytes < 0:
        return None
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def confirm(question: str, refused: str) -> None:
    """Ask before an action that cannot be undone.

    Raises:
        ClickException: the person says no, or standard input ends without a response.
        Abort: Ctrl-C.
    """
    try:
        is_wanted = click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise
        click.echo(err=True)
        raise click.ClickException(
            f"{refused}: there was no response; --yes does not ask"
        ) from abort
    if not is_wanted:
        raise click.ClickException(refused)
