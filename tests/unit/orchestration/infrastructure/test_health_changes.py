"""The asset finds the new and the ended faults of a cluster's health."""

from dataclasses import replace

import dagster as dg

from log_service.cluster_operations.reading import NO_QUORUM, ClusterState
from log_service.cluster_plans.health import CHECKS, Finding, Severity
from orchestration.infrastructure.cluster.asset import check_results, cluster_metadata
from orchestration.infrastructure.cluster.sensor import HealthChange, decide_changes, read_cursor
from tests.unit.cluster_plans.layouts import broker, layout, partition

DOWN = Finding(check="brokers", severity=Severity.DEGRADED, text="broker 3 is fenced", items=("3",))
OFFLINE = Finding(
    check="offline_partitions",
    severity=Severity.FAILED,
    text="1 partition is offline",
    items=("t-0",),
)
MOVING = Finding(
    check="reassignments",
    severity=Severity.NOTICE,
    text="1 partition is on the way",
    items=("t-1",),
)


def test_a_trouble_is_told_when_it_begins_and_when_it_is_over() -> None:
    now, changes = decide_changes({}, [OFFLINE, DOWN, MOVING])
    assert changes == [
        HealthChange(check="offline_partitions", is_over=False, text="1 partition is offline"),
        HealthChange(check="brokers", is_over=False, text="broker 3 is fenced"),
    ]
    same, changes = decide_changes(now, [OFFLINE, DOWN])
    assert (same, changes) == (now, [])
    after, changes = decide_changes(now, [DOWN])
    assert [str(change) for change in changes] == ["over: 1 partition is offline"]
    assert after == {"brokers": "broker 3 is fenced"}


def test_a_cursor_of_something_else_is_none() -> None:
    assert read_cursor(None) == read_cursor("") == read_cursor("[1]") == read_cursor("{") == {}
    assert read_cursor('{"brokers": "x"}') == {"brokers": "x"}


def test_every_check_has_a_result_and_only_what_clients_feel_is_an_error() -> None:
    results = {
        result.check_name: result
        for result in check_results([OFFLINE, DOWN], dg.AssetKey("cluster"))
    }
    assert sorted(map(str, results)) == sorted(CHECKS)
    assert {name for name, result in results.items() if not result.passed} == {
        "offline_partitions",
        "brokers",
    }
    assert results["offline_partitions"].severity is dg.AssetCheckSeverity.ERROR
    assert results["brokers"].severity is dg.AssetCheckSeverity.WARN
    assert results["brokers"].description == "broker 3 is fenced"


def test_the_asset_counts_as_under_replicated_what_its_check_tells() -> None:
    """A replica on an observer, or one that a move adds, is in order."""
    partitions = [
        partition("t", 0, [1, 3], isr=[1]),
        replace(partition("t", 1, [1, 2], isr=[1]), adding=(2,)),
        partition("t", 2, [1, 2], isr=[2]),
    ]
    found = replace(layout([broker(1), broker(2), broker(3)], partitions), observers=frozenset({3}))
    state = ClusterState(cluster_id="c", layout=found, quorum=NO_QUORUM, silent={})
    assert cluster_metadata(state)["under_replicated"] == dg.MetadataValue.int(1)
