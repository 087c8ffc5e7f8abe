"""Runs the ``tidelog`` command.

It runs in this process if only its output matters, and in one of its own for signals and pipes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from log_service.cli import main as cli

SERVERS_VARIABLE = "TIDELOG_BOOTSTRAP_SERVERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The result of a command."""

    exit_code: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()


def run(arguments: Sequence[str], *, bootstrap: str | None = None, given: str = "") -> Finished:
    """Run a command to its end; ``given`` is its standard input."""
    runner = CliRunner()
    exit_code: object = None
    with runner.isolation(given, env={"COLUMNS": "80", SERVERS_VARIABLE: bootstrap}) as (
        output,
        errors,
        _,
    ):
        try:
            cli.main(arguments)
        except SystemExit as end:
            exit_code = end.code
        texts = [stream.getvalue().decode(errors="surrogateescape") for stream in (output, errors)]
    assert isinstance(exit_code, int)
    return Finished(exit_code=exit_code, output=texts[0], errors=texts[1])


def start(arguments: Sequence[str], *, bootstrap: str) -> subprocess.Popen[str]:
    """Start a command in a process of its own; the caller ends it."""
    return subprocess.Popen(
        [sys.executable, "-m", "log_service.cli.main", *arguments],
        env=os.environ | {SERVERS_VARIABLE: bootstrap},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def as_json(finished: Finished) -> Any:
    assert finished.exit_code == 0, finished.errors
    return json.loads(finished.output)
