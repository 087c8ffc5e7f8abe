"""Processes are forked from one that has imported what they need.

That is Dagster, Spark's client, the platform, and the tests' own parts. A test process has one
server that forks, and what that imports is settled when it starts. So all modules share one list:
if each had its own, the list of the first module would hold for all, and the processes of the
others would import the rest themselves, each of them. A module whose functions are called in such a
process is on the list too; otherwise each process would import it, and pytest with it.
"""

import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext
from pathlib import Path

COMMAND_TIMEOUT_S = 300

IMPORTED = [
    "dagster._core.execution.api",
    "dagster._core.storage.sqlite_storage",
    "orchestration.assembly",
    "orchestration.cli.dead_letters",
    "orchestration.cli.replay",
    "orchestration.cli.sql",
    "orchestration.components.loading",
    "orchestration.log_client.connection",
    "orchestration.marts.mart",
    "orchestration.calls.replay",
    "orchestration.resources",
    "orchestration.sensing",
    "orchestration.marts.database_copy",
    "orchestration.transforms.rehearsal",
    "psycopg",
    "pyarrow.dataset",
    "pyspark.sql.connect.session",
    "tests.platform.dying",
    "tests.platform.dying_anywhere",
    "tests.platform.forking",
    "tests.platform.grouped",
    "tests.platform.kill_lines",
    "tests.platform.killed_archiving",
    "tests.platform.killed_run",
    "tests.platform.killed_sending",
    "tests.platform.killed_sources",
    "tests.platform.killed_storing",
    "tests.platform.frozen",  # the last one: it freezes what the others have made
]
"""Not the definitions of a project: those belong to the folder that a process goes to. A name that
cannot be imported is passed over.
"""


def forking() -> ForkServerContext:
    """Return what starts such processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context


def ended(
    arguments: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    home: Path,
    given: str = "",
) -> tuple[int | None, str, str]:
    """Run ``python ARGUMENTS`` in ``folder``; return its exit code, its output and its errors.

    Files in ``home`` keep what it is given and what it says.
    """
    files = (home / "input", home / "output", home / "errors")
    for file, text in zip(files, (given, "", ""), strict=True):
        file.write_text(text)
    process = forking().Process(target=run_python, args=(arguments, folder, environment, files))
    process.start()
    process.join(COMMAND_TIMEOUT_S)
    process.kill()
    process.join()
    return process.exitcode, files[1].read_text(), files[2].read_text()


def run_python(
    arguments: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    files: tuple[Path, Path, Path],
) -> None:
    """Be ``python ARGUMENTS`` in a folder, in a process that was forked for it. ``files`` are its
    input, output and errors.
    """
    for number, file in enumerate(files):
        os.dup2(
            os.open(file, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            number,
        )
    sys.stdin = os.fdopen(0)  # multiprocessing has put an empty one there
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [str(folder)]
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "-c", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")
