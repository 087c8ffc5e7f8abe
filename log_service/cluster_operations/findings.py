"""Collects a cluster's problems.

They are the findings of ``cluster_plans.health`` and the brokers that did not respond.
"""

from collections.abc import Sequence

from log_service.cluster_operations.reading import ClusterState
from log_service.cluster_plans.health import DISK_FULL_PERCENT, Finding, Severity, findings_of


def state_findings(
    state: ClusterState,
    throttled: Sequence[int] = (),
    *,
    disk_full_percent: int = DISK_FULL_PERCENT,
) -> list[Finding]:
    """Return the problems, the worst first. A broker that should serve and does not respond comes
    before its equals.

    ``throttled`` are the brokers that have a throttle of replication; a disk is nearly full above
    ``disk_full_percent``.
    """
    silent = [
        Finding(
            check="brokers",
            severity=Severity.DEGRADED,
            text=f"broker {broker_id} does not respond: {why}",
            items=(str(broker_id),),
        )
        for broker_id, why in state.silent.items()
    ]
    found = findings_of(state.layout, state.quorum, throttled, disk_full_percent=disk_full_percent)
    return sorted([*silent, *found], key=lambda finding: -finding.severity)
