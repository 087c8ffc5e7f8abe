"""``tidelog mirror`` copies topics of one cluster into another, and shows the mirror's lag."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from log_service.cli.output import json_option, print_rows
from log_service.cli.running import run as run_on_trio
from log_service.cli.running import until_stopped
from log_service.client.connections.env import real_env
from log_service.common.errors import ConfigError
from log_service.common.installation_names import MIRROR_FILE
from log_service.mirror.lag import FlowLag, measure_lag
from log_service.mirror.service import MirrorService
from log_service.mirror.settings import MirrorSettings
from log_service.mirror.settings_file import read_mirror_settings

STATUS_TIMEOUT_MS = 20_000

file_argument = click.argument(
    "file",
    metavar="[FILE]",
    default=MIRROR_FILE,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)


@click.group()
def mirror() -> None:
    """Mirror topics of one cluster to another, exactly once, with configs and group offsets.

    \b
    A file that is enough, in MirrorMaker's words:
      clusters = A, B
      A.bootstrap.servers = 127.0.0.1:9092
      B.bootstrap.servers = 127.0.0.1:9192
      A->B.enabled = true
      A->B.topics = orders, clicks.*
    """


@mirror.command()
@file_argument
@click.option("--heartbeat", type=click.Path(path_type=Path), hidden=True)
@click.option("--complaint", type=click.Path(path_type=Path), hidden=True)
def run(*, file: Path, heartbeat: Path | None, complaint: Path | None) -> None:
    """Mirror the flows of FILE in the foreground, until Ctrl-C or SIGTERM.

    It may be killed at any moment: mirrored records and the position in the source are one
    transaction. `tidelog up` runs it for a project that has a mirror.properties.
    """
    settings = read_mirror_settings(file)
    if settings.unused:
        click.echo(
            f"{file}: these keys have no meaning here: {', '.join(settings.unused)}", err=True
        )
    service = MirrorService(settings, say=click.echo, heartbeat=heartbeat, complaint=complaint)
    run_on_trio(until_stopped, service.run)


@mirror.command()
@file_argument
@click.option("--flow", "only", metavar="A->B", help="Only this flow.")
@json_option
def status(*, file: Path, only: str | None, as_json: bool) -> None:
    """Show the lag of each topic in the flows of FILE.

    The mirror need not run for that. RECORDS counts what the source has and the target has not;
    SECONDS is how long the oldest of it waits; LOST counts offsets that retention of the source
    removed before they were mirrored. PARTITIONS is the number of a topic's partitions whose
    mirroring has begun.
    """
    settings = read_mirror_settings(file)
    flows = [flow for flow in settings.flows if only in {None, flow.name}]
    if not flows:
        raise ConfigError(
            f"{file} enables no flow {only}; it enables"
            f" {', '.join(flow.name for flow in settings.flows)}"
        )
    lags = run_on_trio(measure_all, settings, [flow.name for flow in flows])
    rows = [row for lag in lags for row in rows_of(lag)]
    print_rows(
        rows,
        ["flow", "topic", "target", "partitions", "records", "seconds", "lost"],
        as_json=as_json,
        empty="no topic is mirrored",
    )


async def measure_all(settings: MirrorSettings, names: Sequence[str]) -> list[FlowLag]:
    """Return the lags of the named flows."""
    env = real_env()
    return [
        await measure_lag(settings.flows, flow, env, STATUS_TIMEOUT_MS)
        for flow in settings.flows
        if flow.name in names
    ]


def rows_of(lag: FlowLag) -> list[dict[str, Any]]:
    """Return a flow's topics as rows."""
    return [
        {
            "flow": lag.flow,
            "topic": each.topic,
            "target": each.remote_topic,
            "partitions": f"{each.begun_count}/{each.partition_count}",
            "records": each.records_behind,
            "seconds": each.seconds_behind,
            "lost": each.lost_count,
        }
        for each in lag.topics
    ]
