"""Dagster's daemon, with less of a pause between the ticks of a sensor: ``python -m orchestration.daemon run ...``, arguments as Dagster's.

A sensor's tick that waits for records is of use only while it runs. With ticks in threads Dagster looks every five seconds whether a
sensor may tick again, and until then no tick waits: half of that would be the largest part of a record's way to its row. Here it looks
twice a second. Dagster has no setting for it.

A loop of the daemon that hangs is told in Dagster's log, and nothing more happens. Here it ends the sign of life, so that the supervisor
starts the daemon again.
"""

import logging
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from dagster._daemon import sensor
from dagster._daemon.cli import main
from dagster._daemon.daemon import DagsterDaemon

from orchestration.daemon_heartbeat import Loops, start_heartbeat
from orchestration.plain_log import write_plainly
from orchestration.settings import process_environment

SENSOR_LOOP_S = 0.5


class DaemonLoop:
    """A loop of Dagster's; it notes the time of a step every half a minute."""

    def __init__(self, daemon: DagsterDaemon[Any]) -> None:
        self._daemon = daemon
        self.name = f"the loop of the {daemon.daemon_type()} daemon"

    def progress(self) -> Hashable:
        """Return the time of the last step that was noted."""
        return self._daemon._last_heartbeat_time  # noqa: SLF001 - Dagster tells it nowhere else but in its storage


def watch_loops(loops: Loops) -> None:
    """Have every loop that is begun from now on added to ``loops``."""
    run_loop = DagsterDaemon.run_daemon_loop

    def run_watched(daemon: DagsterDaemon[Any], *arguments: Any) -> None:
        loops.add(DaemonLoop(daemon))
        run_loop(daemon, *arguments)

    DagsterDaemon.run_daemon_loop = run_watched  # type: ignore[assignment, method-assign]


def run() -> None:
    """Run the daemon until it is told to stop."""
    write_plainly()
    loops = Loops()
    watch_loops(loops)
    start_heartbeat(Path(process_environment()["DAGSTER_HOME"]), loops, logging.getLogger("dagster.daemon").warning)
    assert hasattr(sensor, "MIN_INTERVAL_LOOP_TIME"), "this release of Dagster names the pause of its sensor loop otherwise"
    sensor.MIN_INTERVAL_LOOP_TIME = SENSOR_LOOP_S  # type: ignore[assignment]
    main()


if __name__ == "__main__":
    run()
