"""Mirrors as assets: shows the lag of each flow of a mirror in Dagster's UI.

``mirror_assets`` returns an asset for each flow of a mirror's file. No run materializes it, because
the mirror works outside of Dagster. ``mirror_sensor`` measures each flow's lag, and reports it as
an observation of the flow's asset, which the UI plots: records and seconds, and a table of topics.

The file is read when definitions load, and with each tick. No cluster is asked while definitions
load. If the file cannot be used, the rest of the project loads all the same. An asset named after
the file then shows the mistake, and so does each tick. ``decide_lags`` decides which lags are worth
an observation, and the cursor remembers the reported ones. If a flow cannot be measured, the others
still are. Its asset shows the reason, and so does the tick.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from log_service.client import ConfigError, KafkaError
from log_service.common.installation_names import MIRROR_FILE
from orchestration.project.location import in_project
from orchestration.project.mistakes import mistaken_asset
from orchestration.sensing.progress import Reported, is_due, read_cursor, stored

if TYPE_CHECKING:
    from log_service.mirror.lag import FlowLag
    from log_service.mirror.settings import FlowSettings, MirrorSettings

MIRROR_PREFIX = "mirrors"
INTERVAL_S = 15
TIMEOUT_MS = 5_000


def mirror_assets(file: Path | str = MIRROR_FILE) -> list[dg.AssetSpec]:
    """Return the assets ``mirrors/A_to_B`` of a mirror's file, one for each flow that it enables.

    If the file cannot be used, one asset with the name of the file says why.
    """
    try:
        flows = _settings(file).flows
    except ConfigError as error:
        return [
            mistaken_asset(
                dg.AssetKey([MIRROR_PREFIX, _key_part(Path(file).name)]), str(error), MIRROR_PREFIX
            )
        ]
    return [
        dg.AssetSpec(
            key=asset_key(flow),
            description=(
                f"What is mirrored from {flow.source.alias} to {flow.target.alias}: topics"
                f" {', '.join(flow.topics)}"
            ),
            group_name=MIRROR_PREFIX,
            metadata={
                "tidelog/source": flow.source.bootstrap_servers,
                "tidelog/target": flow.target.bootstrap_servers,
            },
        )
        for flow in flows
    ]


def asset_key(flow: "FlowSettings") -> dg.AssetKey:
    """Return the key of the asset that shows a flow."""
    return dg.AssetKey([MIRROR_PREFIX, _key_part(f"{flow.source.alias}_to_{flow.target.alias}")])


def _key_part(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def mirror_sensor(
    file: Path | str = MIRROR_FILE,
    *,
    name: str = "mirror_lags",
    now_s: Callable[[], float] = time.time,
) -> dg.SensorDefinition:
    """Return the sensor that reports the lags of a mirror's flows.

    ``now_s`` returns the time in seconds. Ticks fail with ``ConfigError`` as long as the file
    cannot be read, or has settings that cannot work.
    """

    @dg.sensor(
        name=name,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells how far mirrors are behind: records and seconds",
    )
    def watch_mirrors(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        settings = _settings(file)
        found: dict[str, FlowLag] = {}
        failures: dict[str, str] = {}
        for flow in settings.flows:
            try:
                found[flow.name] = measure(settings, flow)
            except (KafkaError, ConfigError, OSError) as error:
                failures[flow.name] = f"the mirror {flow.name} cannot be measured: {error}"
        behind = {flow: each.records_behind for flow, each in found.items()}
        due, reported = decide_lags(behind, read_cursor(context.cursor), now_s(), failures)
        due_flows = [flow for flow in settings.flows if flow.name in due]
        events = [
            (
                lag_event(flow, found[flow.name])
                if flow.name in found
                else failure_event(flow, failures[flow.name])
            )
            for flow in due_flows
        ]
        reasons = [*failures.values(), *([] if events else ["no mirror has got on or behind"])]
        return dg.SensorResult(
            asset_events=events,
            cursor=json.dumps(stored(reported)),
            skip_reason=dg.SkipReason("; ".join(reasons)) if reasons else None,
        )

    return watch_mirrors


def measure(settings: "MirrorSettings", flow: "FlowSettings") -> "FlowLag":
    """Return the current lag of a flow.

    :raises KafkaError: a cluster cannot be reached, or refuses.
    """
    import trio  # noqa: PLC0415 - a sensor's tick alone has use for it

    from log_service.client import real_env  # noqa: PLC0415
    from log_service.mirror.lag import measure_lag  # noqa: PLC0415

    return trio.run(measure_lag, settings.flows, flow, real_env(), TIMEOUT_MS)


def decide_lags(
    lags: Mapping[str, int],
    reported: Mapping[str, Reported],
    now_s: float,
    failures: Mapping[str, str] | None = None,
) -> tuple[frozenset[str], dict[str, Reported]]:
    """Return the flows to report, and the reports to remember.

    ``failures`` has the reason, by flow, why a lag could not be measured. A lag that changed is
    reported at most once per interval, and at once when it became zero. A lag that stays, and is
    not zero, is reported every minute, because its seconds grow. A failure to measure a flow is
    reported at once, and once.
    """
    failed = failures or {}
    measured = {flow: f"{lag} at {int(now_s // 60)}" if lag else "0" for flow, lag in lags.items()}
    values = {**measured, **failed}
    due = frozenset(
        flow
        for flow, value in values.items()
        if is_due(reported.get(flow), value, now_s, is_urgent=value == "0" or flow in failed)
    )
    return due, {**reported, **{flow: Reported(value=values[flow], at_s=now_s) for flow in due}}


def lag_event(flow: "FlowSettings", found: "FlowLag") -> dg.AssetObservation:
    """Return the observation that reports a flow's lag."""
    rows = [
        dg.TableRecord(
            {
                "topic": each.topic,
                "remote_topic": each.remote_topic,
                "records_behind": each.records_behind,
                "seconds_behind": each.seconds_behind,
                "lost": each.lost_count,
            }
        )
        for each in found.topics
    ]
    seconds = found.seconds_behind
    return dg.AssetObservation(
        asset_key=asset_key(flow),
        description="What the source has and the target has not",
        metadata={
            "records_behind": found.records_behind,
            **({} if seconds is None else {"seconds_behind": seconds}),
            "lost": sum(each.lost_count for each in found.topics),
            "topics": (
                dg.MetadataValue.table(rows)
                if rows
                else dg.MetadataValue.text("no topic is mirrored")
            ),
        },
    )


def failure_event(flow: "FlowSettings", why: str) -> dg.AssetObservation:
    """Return the observation that reports why a flow cannot be measured."""
    return dg.AssetObservation(
        asset_key=asset_key(flow), description=why, metadata={"failure": why}
    )


def _settings(file: Path | str) -> "MirrorSettings":
    from log_service.mirror.settings_file import read_mirror_settings  # noqa: PLC0415

    return read_mirror_settings(in_project(file))
