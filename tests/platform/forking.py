"""Processes that are forked from one that has imported already what they need: Dagster, Spark's client, the platform, the tests' own parts.

A test process has one server that forks, and what that imports is settled when it starts. So all modules share one list: if each had its
own, the list of the first module would hold for all, and the processes of the others would import the rest themselves, each of them.
A module whose functions are called in such a process is on the list too; otherwise each process would import it, and pytest with it.
"""

import multiprocessing
from multiprocessing.context import ForkServerContext

IMPORTED = [
    "dagster._core.execution.api",
    "dagster._core.storage.sqlite_storage",
    "orchestration.assembly",
    "orchestration.cli.dead_letters",
    "orchestration.cli.replay",
    "orchestration.cli.sql",
    "orchestration.components.loading",
    "orchestration.connection",
    "orchestration.marts",
    "orchestration.replay",
    "orchestration.resources",
    "orchestration.sensing",
    "orchestration.sql",
    "orchestration.transforms.rehearsal",
    "psycopg",
    "pyarrow.dataset",
    "pyspark.sql.connect.session",
    "tests.platform.dying",
    "tests.platform.dying_anywhere",
    "tests.platform.grouped",
    "tests.platform.kill_lines",
    "tests.platform.killed_archiving",
    "tests.platform.killed_run",
    "tests.platform.killed_sending",
    "tests.platform.killed_sources",
    "tests.platform.killed_storing",
    "tests.platform.test_pages",
]
"""Not the definitions of a project: those belong to the folder that a process goes to. A name that cannot be imported is passed over."""


def forking() -> ForkServerContext:
    """Return what starts such processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context
