"""Runs Dagster's daemon with loops that wake up only when they may have work.

``python -m orchestration daemon run ...`` takes Dagster's arguments.

A sensor notices records only while one of its ticks runs. With ticks in threads, Dagster checks
only every five seconds whether a sensor may tick again. A record would wait half of that time on
average, longer than for all other steps to its row. Here a tick is followed by the next one at
once, and loops without work wake up more seldom than Dagster's (``pace``). Dagster has no setting
for either.

If a loop of the daemon hangs, Dagster only logs it. Here the daemon then stops its heartbeat, so
that the supervisor restarts it.
"""

import logging
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from dagster._daemon.cli import main as run_daemon
from dagster._daemon.daemon import DagsterDaemon

from orchestration.installation.code_watch import ask_seldom
from orchestration.installation.daemon.heartbeat import Loops, start_heartbeat
from orchestration.installation.daemon.pace import Pause, paced
from orchestration.installation.plain_log import write_plainly
from orchestration.settings import SettingsError, instance_home


class DaemonLoop:
    """A loop of Dagster's. Its progress is the time of a step, noted at most every half minute."""

    def __init__(self, daemon: DagsterDaemon[Any]) -> None:
        self._daemon = daemon
        self.name = f"the loop of the {daemon.daemon_type()} daemon"

    def progress(self) -> Hashable:
        """Return the time of the last step that was noted."""
        return self._daemon._last_heartbeat_time  # noqa: SLF001 - Dagster tells it nowhere else but in its storage


def watch_loops(loops: Loops) -> None:
    """Make every loop that begins from now on wait with longer pauses, and add it to ``loops``."""
    run_loop = DagsterDaemon.run_daemon_loop

    def run_watched(
        daemon: DagsterDaemon[Any], context: Any, daemon_uuid: str, ended: Pause, *intervals: Any
    ) -> None:
        loops.add(DaemonLoop(daemon))
        run_loop(daemon, context, daemon_uuid, paced(daemon, context, ended), *intervals)  # type: ignore[arg-type]  # an Event to Dagster

    DagsterDaemon.run_daemon_loop = run_watched  # type: ignore[assignment, method-assign]


def main() -> None:
    """Run the command of Dagster's daemon that this process's arguments name.

    ``run`` lasts until a signal stops it, with the pauses and the heartbeat of this module. Help
    and other commands are exactly Dagster's, because they run no loops.
    """
    given = sys.argv[1:]
    if "run" in given and "--help" not in given:
        try:
            home = instance_home()
        except SettingsError as error:
            sys.exit(f"python -m orchestration daemon: {error}")
        prepare(home)
    run_daemon()


def prepare(home: Path) -> None:
    """Set the pace of this process's loops, and start its heartbeat.

    ``home`` is the instance's folder.
    """
    write_plainly()
    loops = Loops()
    watch_loops(loops)
    start_heartbeat(home, loops, logging.getLogger("dagster.daemon").warning)
    ask_seldom()


if __name__ == "__main__":
    main()
