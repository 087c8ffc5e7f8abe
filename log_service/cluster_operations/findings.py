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
    """Return the problems of a cluster, the worst first.

    Among problems of the same severity, a broker that should serve and does not respond comes
    first. Facts that the login may not see do not count as problems. ``throttled`` are the brokers
    that have a replication throttle. A disk is nearly full above ``disk_full_percent``.
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
    if state.is_hidden:
        text = (
            "this login may not see the quorum, the disks and the moves of replicas: that needs"
            " DESCRIBE on the cluster"
        )
        hidden = Finding(check="rights", severity=Severity.NOTICE, text=text)
        silent, found = [hidden], [each for each in found if each.check != "quorum"]
    return sorted([*silent, *found], key=lambda finding: -finding.severity)
