"""Writes a project's declared topics for its brokers: ``python -m orchestration declare``.

It runs before the brokers start. A broker creates a topic for the first client that asks for it.
With this file a declared topic gets its declared partitions, replicas and configs then, however
early the client is. The project is loaded only if its files are newer than the written file, and by
one process at a time. A project that cannot be loaded, or hangs, does not keep brokers from
starting. Its earlier topics stay in the file.
"""

import argparse
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from log_service.common.private_files import open_private, replace_private
from orchestration.project.location import DEFINITIONS, root_cause, watched_files

if TYPE_CHECKING:
    from orchestration.topics.spec import TopicSpec

LOAD_WITHIN_S = 60


def main() -> None:
    """Write the file, unless it is up to date.

    Give up after ``LOAD_WITHIN_S`` seconds. The file then stays as it was.
    """
    parser = argparse.ArgumentParser(
        prog="python -m orchestration declare", description="Write which topics a project declares"
    )
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--file", type=Path, required=True)
    given = parser.parse_args()
    project, file = given.project.resolve(), given.file.absolute()
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(LOAD_WITHIN_S)
    with os.fdopen(open_private(file.with_suffix(".lock"), os.O_RDWR), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_up_to_date(file, project):
            declare(project, file)


def declare(project: Path, file: Path) -> None:
    """Load the project and write its topics. A project that cannot be loaded is reported."""
    os.chdir(project)
    sys.path.insert(0, str(project))
    try:
        assets = import_module(DEFINITIONS).defs.get_repository_def().assets_defs_by_key.values()
        write_declared(
            file, project, import_module("orchestration.topics.spec").topic_specs(assets)
        )
    except Exception as error:  # noqa: BLE001 - a project may raise anything
        print(f"the declared topics are as they were: {root_cause(error)}", file=sys.stderr)  # noqa: T201 - the broker's log


def write_declared(file: Path, project: Path, specs: Iterable["TopicSpec"]) -> None:
    """Write the topics that ``project`` declares.

    The format is that of a broker's ``auto.create.topics.declarations``.
    """
    topics = {
        spec.name: {
            "partitions": spec.partitions,
            "replication_factor": spec.replication_factor,
            "configs": dict(spec.configs),
        }
        for spec in specs
    }
    replace_private(file, json.dumps({"project": str(project), "topics": topics}, indent=2))


def is_up_to_date(file: Path, project: Path) -> bool:
    """Return whether ``file`` is of this project, and newer than all files of its definitions."""
    try:
        written_ns = file.stat().st_mtime_ns
        return json.loads(file.read_bytes())["project"] == str(project) and all(
            one.stat().st_mtime_ns < written_ns for one in watched_files(project)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _give_up(*_: object) -> None:
    sys.exit(
        f"the declared topics are as they were: the project was not loaded within {LOAD_WITHIN_S} s"
    )
