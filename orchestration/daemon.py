"""Dagster's daemon, with less of a pause between the ticks of a sensor: ``python -m orchestration.daemon run ...``, arguments as Dagster's.

A sensor's tick that waits for records is of use only while it runs. With ticks in threads Dagster looks every five seconds whether a
sensor may tick again, and until then no tick waits: half of that would be the largest part of a record's way to its row. Here it looks
twice a second. Dagster has no setting for it.
"""

from pathlib import Path

from dagster._daemon import sensor
from dagster._daemon.cli import main

from orchestration.daemon_heartbeat import start_heartbeat
from orchestration.plain_log import write_plainly
from orchestration.settings import process_environment

SENSOR_LOOP_S = 0.5


def run() -> None:
    """Run the daemon until it is told to stop."""
    write_plainly()
    start_heartbeat(Path(process_environment()["DAGSTER_HOME"]))
    assert hasattr(sensor, "MIN_INTERVAL_LOOP_TIME"), "this release of Dagster names the pause of its sensor loop otherwise"
    sensor.MIN_INTERVAL_LOOP_TIME = SENSOR_LOOP_S  # type: ignore[assignment]
    main()


if __name__ == "__main__":
    run()
