"""The cluster as an asset: a run reads its state, and each asset check reports one kind of trouble.

``log_service.cluster_plans.health`` decides which troubles there are, and how bad each one is. A
check fails with severity ERROR if clients cannot read or write now, else with WARN.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from log_service.cluster_operations.findings import state_findings
from log_service.cluster_operations.moving import brokers_left_throttled
from log_service.cluster_operations.reading import ClusterState, read_state
from log_service.cluster_plans.health import CHECKS, Finding, Severity, is_under_replicated
from orchestration.resources.log_service import LogServiceResource
from orchestration.settings import load_settings

GROUP = "infrastructure"
MAX_ITEMS = 20
DESCRIPTIONS = {
    "offline_partitions": "Every partition has a leader",
    "quorum": "The metadata quorum has a leader, and no voter is behind",
    "under_min_isr": "Every partition has min.insync.replicas replicas in sync",
    "log_directories": "No log directory has failed",
    "brokers": "All brokers serve",
    "under_replicated": "All replicas are in sync",
    "disk": "No disk is nearly full",
    "leader_balance": "Partitions are led by their preferred leaders",
    "reassignments": "No replicas are on the way to other brokers",
    "throttles": "No throttle is left of moves that have ended",
    "cordoned": "All brokers and log directories take new partitions",
    "rights": "This login may see the quorum, the disks and the moves of replicas",
}


def check_results(findings: Sequence[Finding], key: dg.AssetKey) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of every check."""
    for check in CHECKS:
        found = [finding for finding in findings if finding.check == check]
        is_failed = any(finding.severity is Severity.FAILED for finding in found)
        items = [item for finding in found for item in finding.items]
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=check,
            passed=not found,
            severity=dg.AssetCheckSeverity.ERROR if is_failed else dg.AssetCheckSeverity.WARN,
            description="; ".join(finding.text for finding in found) or DESCRIPTIONS[check],
            metadata={"count": len(items), "items": ", ".join(items[:MAX_ITEMS])},
        )


def cluster_metadata(state: ClusterState) -> dict[str, dg.MetadataValue]:
    """Return the metadata that the UI shows and plots."""
    partitions = state.layout.partitions
    rows = [
        dg.TableRecord(
            {
                "broker": broker.broker_id,
                "rack": broker.rack or "",
                "state": "fenced" if broker.is_fenced else "serves",
                "leaders": sum(each.leader == broker.broker_id for each in partitions),
                "replicas": sum(broker.broker_id in each.replicas for each in partitions),
                "in_sync": sum(broker.broker_id in each.isr for each in partitions),
                "used_bytes": sum(directory.used_bytes for directory in broker.log_dirs),
            }
        )
        for broker in state.layout.brokers
    ]
    return {
        "cluster_id": dg.MetadataValue.text(state.cluster_id),
        "active_controller": dg.MetadataValue.int(state.quorum.leader_id),
        "partitions": dg.MetadataValue.int(len(partitions)),
        "under_replicated": dg.MetadataValue.int(
            sum(is_under_replicated(each, state.layout.observers) for each in partitions)
        ),
        "offline": dg.MetadataValue.int(sum(each.leader < 0 for each in partitions)),
        "bytes": dg.MetadataValue.int(
            sum(
                directory.used_bytes
                for broker in state.layout.brokers
                for directory in broker.log_dirs
            )
        ),
        **({"brokers": dg.MetadataValue.table(rows)} if rows else {}),
    }


def cluster_asset(*, name: str = "cluster") -> dg.AssetsDefinition:
    """Return the asset of the cluster, with a check for every kind of trouble."""
    key = dg.AssetKey([GROUP, name])

    @dg.asset(
        key=key,
        group_name=GROUP,
        kinds={"kafka"},
        description="The brokers, how they are, and what is wrong with them",
        check_specs=[
            dg.AssetCheckSpec(name=check, asset=key, description=DESCRIPTIONS[check])
            for check in CHECKS
        ],
    )
    def look_at_cluster(log_service: LogServiceResource) -> dg.MaterializeResult:  # type: ignore[type-arg] # Dagster wants it bare
        with log_service.open_admin() as admin:
            state = admin.run(read_state)
            throttled = admin.run(brokers_left_throttled, state)
            findings = state_findings(
                state, throttled, disk_full_percent=load_settings().disk_full_percent
            )
        return dg.MaterializeResult(
            asset_key=key,
            metadata=cluster_metadata(state),
            check_results=list(check_results(findings, key)),
        )

    return look_at_cluster
