"""Fixes and replays of dead letters, done by the commands ``tidelog dead-letters fix|replay``.

Each call runs the command's own function with ``--json``, so that console and command line do the
same. A change may start Spark, so its process ends soon after it.
"""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import click

from orchestration.cli import dead_letters
from orchestration.console.process.project import Method, forget_changed_project
from orchestration.dead_letters.places import Place, PlaceError


def fix(*, table: str, place: str, value: str, execute: bool) -> dict[str, Any]:
    """Show a fix and try it, or keep it and replay its record.

    :raises ClickException: the fix is refused.
    """
    return _told(
        dead_letters.fix,
        table=table,
        place=_place(place),
        value=value,
        edit=False,
        function=None,
        rule=None,
        execute=execute,
    )


def replay(*, table: str, place: str | None, rule: str | None, execute: bool) -> dict[str, Any]:
    """Count the dead letters that a replay would read, or replay them.

    :raises ClickException: the replay is refused.
    """
    where = None if place is None else _place(place)
    return _told(dead_letters.replay, table=table, place=where, rule=rule, execute=execute)


def _place(text: str) -> Place:
    try:
        return Place.parse(text)
    except PlaceError as error:
        raise click.ClickException(str(error)) from error


def _told(command: click.Command, **arguments: Any) -> dict[str, Any]:
    """Return the JSON that a command prints, with its notes on the error output."""
    forget_changed_project()
    output, notes = io.StringIO(), io.StringIO()
    function: Callable[..., None] | None = command.callback
    assert function is not None
    with redirect_stdout(output), redirect_stderr(notes):
        function(**arguments, as_json=True)
    text = output.getvalue().strip()
    return {"told": json.loads(text) if text else None, "notes": notes.getvalue().strip()}


METHODS: dict[str, Method] = {"fix": fix, "replay": replay}
