"""Reports changes of the cluster's health: each trouble once when it begins, and once when it ends.

``decide_changes`` compares the current troubles with those in the cursor. A change starts a run of
the cluster's asset, so that its checks show the change, and ``notify`` is called with the change.
If no broker responds, that is a trouble, too.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from log_service.cluster_operations.findings import state_findings
from log_service.cluster_operations.reading import read_state
from log_service.cluster_plans.health import Finding, Severity
from orchestration.log_client.protocol import LogServiceError
from orchestration.resources.log_service import LogServiceResource
from orchestration.settings import load_settings

INTERVAL_S = 30
TIMEOUT_MS = 10_000
UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChange:
    """A trouble that began or is over. ``text`` describes it."""

    check: str
    is_over: bool
    text: str

    def __str__(self) -> str:
        return f"over: {self.text}" if self.is_over else self.text


def decide_changes(
    before: Mapping[str, str], findings: Sequence[Finding]
) -> tuple[dict[str, str], list[HealthChange]]:
    """Return the current troubles by check, and the changes: troubles that began or ended.

    A trouble that continues with other figures (one more partition, one less) is not a change.
    Findings of severity NOTICE are not troubles.
    """
    now: dict[str, str] = {}
    for finding in findings:
        if finding.severity is not Severity.NOTICE:
            now.setdefault(finding.check, finding.text)
    began = [
        HealthChange(check=check, is_over=False, text=text)
        for check, text in now.items()
        if check not in before
    ]
    over = [
        HealthChange(check=check, is_over=True, text=text)
        for check, text in before.items()
        if check not in now
    ]
    return now, began + over


def read_cursor(cursor: str | None) -> dict[str, str]:
    """Return the troubles that the cursor remembers.

    They are empty without a cursor, or with a cursor that this sensor did not write.
    """
    try:
        content = json.loads(cursor or "{}")
    except ValueError:
        return {}
    return (
        {str(check): str(text) for check, text in content.items()}
        if isinstance(content, dict)
        else {}
    )


def cluster_sensor(
    asset: dg.AssetsDefinition,
    *,
    name: str = "cluster_health",
    notify: Callable[[HealthChange], None] | None = None,
) -> dg.SensorDefinition:
    """Return the sensor over the cluster's asset.

    ``notify`` is called with every change, e.g. to send it to a chat.
    """
    job = dg.define_asset_job(f"{name}_job", selection=dg.AssetSelection.assets(asset))

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells when the health of the cluster changes, and has its checks run then",
    )
    def watch_cluster(
        context: dg.SensorEvaluationContext, log_service: LogServiceResource
    ) -> dg.SensorResult:
        now, changes = decide_changes(read_cursor(context.cursor), _findings(log_service))
        for change in changes:
            context.log.warning("the cluster: %s", change)
            if notify is not None:
                notify(change)
        is_reachable = UNREACHABLE not in now
        requests = [dg.RunRequest()] if changes and is_reachable else []
        return dg.SensorResult(run_requests=requests, cursor=json.dumps(now, sort_keys=True))

    return watch_cluster


def _findings(log_service: LogServiceResource) -> list[Finding]:
    try:
        with log_service.open_admin(timeout_ms=TIMEOUT_MS) as admin:
            return state_findings(
                admin.run(read_state), disk_full_percent=load_settings().disk_full_percent
            )
    except LogServiceError as error:
        return [Finding(check=UNREACHABLE, severity=Severity.FAILED, text=str(error))]
