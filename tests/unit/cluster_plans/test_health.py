"""Findings come with the worst first, and a healthy cluster has none."""

from dataclasses import replace

from log_service.cluster_plans.health import QuorumMember, QuorumState, Severity, findings_of, worst
from log_service.cluster_plans.layout import (
    BrokerLayout,
    ClusterLayout,
    LogDirectory,
    PartitionLayout,
)
from tests.unit.cluster_plans.layouts import broker, layout, partition

QUORUM = QuorumState(
    leader_id=1,
    leader_epoch=4,
    members=tuple(QuorumMember(node_id=n, is_voter=True, lag=0) for n in (1, 2, 3)),
)
BROKERS = [broker(1), broker(2), broker(3)]
HEALTHY = partition("t", 0, [1, 2, 3], min_isr=2)


def texts(cluster: ClusterLayout, quorum: QuorumState = QUORUM) -> list[tuple[str, Severity]]:
    return [(finding.check, finding.severity) for finding in findings_of(cluster, quorum)]


def of(*partitions: PartitionLayout) -> ClusterLayout:
    return layout(BROKERS, partitions)


def test_nothing_is_wrong_with_a_healthy_cluster() -> None:
    assert findings_of(of(HEALTHY), QUORUM) == []
    assert worst([]) is None


def test_what_clients_feel_comes_first() -> None:
    offline = partition("t", 1, [3], leader=-1, isr=[3])
    alone = partition("t", 2, [1, 2, 3], isr=[1], min_isr=2)
    lagging = partition("t", 3, [1, 2, 3], isr=[1, 2], min_isr=2)
    brokers: list[BrokerLayout] = [broker(1), broker(2), broker(3, is_fenced=True)]
    found = findings_of(layout(brokers, [HEALTHY, lagging, alone, offline]), QUORUM)
    assert [(each.check, each.severity, each.items) for each in found] == [
        ("offline_partitions", Severity.FAILED, ("t-1",)),
        ("under_min_isr", Severity.FAILED, ("t-2",)),
        ("brokers", Severity.DEGRADED, ("3",)),
        ("under_replicated", Severity.DEGRADED, ("t-3", "t-2")),
    ]
    assert found[2].text == "broker 3 is fenced: it is down or not ready, with 4 replicas"
    assert worst(found) is Severity.FAILED


def test_a_broker_that_is_down_is_more_than_a_note_without_replicas_too() -> None:
    """Scripts were told by exit code 0 that all is well, because the broker held nothing yet."""
    (found,) = findings_of(layout([*BROKERS, broker(4, is_fenced=True)], [HEALTHY]), QUORUM)
    assert (found.check, found.severity, found.items) == ("brokers", Severity.DEGRADED, ("4",))
    assert found.text.endswith(
        "with 0 replicas; start it, or forget it with 'tidelog cluster unregister 4'"
    )


def test_a_factor_below_min_isr_is_not_under_it() -> None:
    assert texts(of(partition("t", 0, [1], min_isr=2))) == []


def test_a_replica_that_is_being_added_is_not_missing() -> None:
    moving = replace(partition("t", 0, [1, 2, 3], isr=[1, 2]), adding=(3,), removing=(1,))
    assert texts(of(moving)) == [("reassignments", Severity.NOTICE)]


def test_voters_that_are_behind_are_told_with_what_is_left() -> None:
    late = QuorumMember(node_id=3, is_voter=True, lag=50, caught_up_ms_ago=60_000)
    (found,) = findings_of(of(HEALTHY), replace(QUORUM, members=(*QUORUM.members[:2], late)))
    assert (
        found.text == "voter 3 of the metadata quorum is behind (2 of 3 are not: no other may fail)"
    )
    moment = replace(late, caught_up_ms_ago=400)
    assert texts(of(HEALTHY), replace(QUORUM, members=(*QUORUM.members[:2], moment))) == []
    assert texts(of(HEALTHY), replace(QUORUM, leader_id=-1)) == [("quorum", Severity.FAILED)]


def test_a_voter_that_never_came_is_behind_after_seconds() -> None:
    never = QuorumMember(node_id=1, is_voter=True, lag=145)
    (found,) = findings_of(
        of(HEALTHY), replace(QUORUM, leader_id=2, members=(never, *QUORUM.members[1:]))
    )
    assert (
        found.text == "voter 1 of the metadata quorum is behind (2 of 3 are not: no other may fail)"
    )
    just_elected = replace(never, lag=3)
    assert (
        texts(
            of(HEALTHY), replace(QUORUM, leader_id=2, members=(just_elected, *QUORUM.members[1:]))
        )
        == []
    )


def test_a_broker_that_is_down_comes_before_the_voter_that_is_behind_for_it() -> None:
    late = QuorumMember(node_id=3, is_voter=True, lag=50, caught_up_ms_ago=60_000)
    brokers: list[BrokerLayout] = [broker(1), broker(2), broker(3, is_fenced=True)]
    found = texts(layout(brokers, [HEALTHY]), replace(QUORUM, members=(*QUORUM.members[:2], late)))
    assert found == [("brokers", Severity.DEGRADED), ("quorum", Severity.DEGRADED)]


def test_a_directory_that_a_node_has_left_is_not_behind() -> None:
    """A voter came back with an empty disk.

    The quorum remembers its old directory for minutes, and the node has caught up.
    """
    old = QuorumMember(node_id=3, is_voter=False, lag=50, caught_up_ms_ago=60_000)
    assert texts(of(HEALTHY), replace(QUORUM, members=(*QUORUM.members, old))) == []
    older, late = replace(old, node_id=4, lag=90), replace(old, node_id=4)
    (found,) = findings_of(
        layout([*BROKERS, broker(4)], [HEALTHY]),
        replace(QUORUM, members=(*QUORUM.members, older, late)),
    )
    assert found.text == "broker 4 is 50 records behind the metadata log"


def test_an_observer_that_is_behind_is_told_unless_its_broker_is_down() -> None:
    late = QuorumMember(node_id=4, is_voter=False, lag=50, caught_up_ms_ago=60_000)
    quorum = replace(QUORUM, members=(*QUORUM.members, late))
    (found,) = findings_of(layout([*BROKERS, broker(4)], [HEALTHY]), quorum)
    assert found.text == "broker 4 is 50 records behind the metadata log"
    assert texts(layout([*BROKERS, broker(4, is_fenced=True)], [HEALTHY]), quorum) == [
        ("brokers", Severity.DEGRADED)
    ]
    assert texts(of(HEALTHY), quorum) == [], (
        "it has left the cluster, and the quorum still remembers it"
    )


def test_directories_that_failed_and_disks_that_are_nearly_full() -> None:
    full = LogDirectory(path="/a", total_bytes=100, usable_bytes=10)
    failed = LogDirectory(path="/b", is_online=False)
    roomy = LogDirectory(path="/c", total_bytes=100, usable_bytes=60)
    brokers = [replace(BROKERS[0], log_dirs=(full, failed, roomy)), *BROKERS[1:]]
    found = findings_of(layout(brokers, [HEALTHY]), QUORUM)
    assert [each.text for each in found] == [
        "log directory /b of broker 1 has failed",
        "the disk of /a of broker 1 is 90 % full",
    ]
    found = findings_of(layout(brokers, [HEALTHY]), QUORUM, disk_full_percent=90)
    assert [each.text for each in found] == ["log directory /b of broker 1 has failed"]


def test_a_full_disk_is_a_failure_where_leaders_refuse_writes_for_it() -> None:
    led, followed = partition("t", 1, [1, 2, 3]), partition("t", 2, [2, 1, 3])
    full = LogDirectory(
        path="/a",
        total_bytes=1 << 40,
        usable_bytes=(64 << 20) - 1,
        served=frozenset({led.where, followed.where}),
    )
    (found,) = findings_of(
        layout([replace(BROKERS[0], log_dirs=(full,)), *BROKERS[1:]], [led, followed]), QUORUM
    )
    assert (found.check, found.severity, found.items) == ("disk", Severity.FAILED, ("1:/a",))
    assert (
        found.text
        == "the disk of /a of broker 1 is full: 1 partition is led there, and writes are refused (t-1)"
    )
    for directory, partitions in (
        (replace(full, usable_bytes=64 << 20), [led]),
        (full, [followed]),
        (replace(full, served=frozenset()), [led]),
        (replace(full, usable_bytes=-1, total_bytes=-1), [led]),
    ):
        found_now = findings_of(
            layout([replace(BROKERS[0], log_dirs=(directory,)), *BROKERS[1:]], partitions), QUORUM
        )
        assert Severity.FAILED not in {each.severity for each in found_now}


def test_leaders_away_from_home_are_a_notice_only() -> None:
    assert texts(of(partition("t", 0, [1, 2], leader=2), HEALTHY)) == [
        ("leader_balance", Severity.NOTICE)
    ]


def test_replicas_on_a_broker_that_is_not_registered() -> None:
    assert texts(of(partition("t", 0, [1, 9], isr=[1]))) == [
        ("brokers", Severity.DEGRADED),
        ("under_replicated", Severity.DEGRADED),
    ]


def test_a_throttle_that_was_left_behind_is_told_once_nothing_moves() -> None:
    (found,) = findings_of(of(HEALTHY), QUORUM, throttled=[1, 3])
    assert (found.check, found.severity, found.items) == ("throttles", Severity.NOTICE, ("1", "3"))
    assert (
        found.text
        == "replication is throttled on brokers 1, 3 and nothing moves: tidelog cluster watch takes the throttle away"
    )
    moving = replace(partition("t", 0, [1, 2, 3], isr=[1, 2]), adding=(3,), removing=(1,))
    assert [each.check for each in findings_of(of(moving), QUORUM, throttled=[1, 3])] == [
        "reassignments"
    ]


def test_one_controller_of_several_brokers_is_a_notice() -> None:
    alone = replace(QUORUM, members=QUORUM.members[:1])
    (found,) = findings_of(of(HEALTHY), alone)
    assert (found.check, found.severity, found.items) == ("quorum", Severity.NOTICE, ("1",))
    assert found.text.startswith(
        "node 1 is the only controller of 3 brokers: while it is down nothing can be changed"
    )
    assert "tidelog cluster voters add" in found.text
    assert findings_of(layout([broker(1)], [partition("t", 0, [1])]), alone) == [], (
        "one broker alone is meant so"
    )
    assert findings_of(of(HEALTHY), replace(alone, leader_id=-1))[0].severity is Severity.FAILED
