"""The cluster as its page shows it: findings, brokers, directories, quorum and moves.

The findings and their severity are those of ``tidelog cluster status``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from log_service.cluster_operations.reading import ClusterState
from log_service.cluster_plans.health import (
    Finding,
    QuorumMember,
    Severity,
    is_under_replicated,
    worst,
)
from log_service.cluster_plans.layout import NO_LEADER, BrokerLayout, PartitionLayout
from log_service.cluster_plans.plan import Move
from log_service.http.console.addresses import command

MAX_SHOWN_PARTITIONS = 200
MARKS: Mapping[Severity | None, str] = MappingProxyType(
    {
        None: "good",
        Severity.NOTICE: "notice",
        Severity.DEGRADED: "degraded",
        Severity.FAILED: "failed",
    }
)
STATES: Mapping[Severity | None, str] = MappingProxyType(
    {
        None: "All is well",
        Severity.NOTICE: "All works",
        Severity.DEGRADED: "All works, and the next failure may cost something",
        Severity.FAILED: "Clients cannot read or write something now",
    }
)
ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "offline_partitions": "Start the brokers that hold the replicas. If their disks are lost: "
        + command("cluster", "elect", "TOPIC:0", "--unclean"),
        "under_min_isr": "Start the brokers whose replicas are out of sync, or see why they lag.",
        "under_replicated": "Start the brokers whose replicas are out of sync, or see their disks.",
        "brokers": "Start the broker, and read its log.",
        "quorum": "Start the voters that are behind: " + command("cluster", "quorum"),
        "log_directories": "Replace the disk, and start the broker again.",
        "disk": "Free the disk: lower retention, or move replicas away with "
        + command("cluster", "balance"),
        "leader_balance": command("cluster", "elect"),
        "reassignments": "Follow the moves: " + command("cluster", "watch"),
        "throttles": command("cluster", "watch"),
    }
)
"""The advice for findings whose text has none, by check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """One problem, with its remedy."""

    mark: str
    text: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryRow:
    """One log directory. ``full_percent`` is None if the broker does not report sizes."""

    path: str
    state: str
    used_bytes: int
    usable_bytes: int
    total_bytes: int
    full_percent: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """One broker."""

    broker_id: int
    state: str
    mark: str
    address: str
    rack: str
    leader_count: int
    replica_count: int
    in_sync_count: int
    lag: int
    quorum: str
    directories: tuple[DirectoryRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRow:
    """One voter or observer of the metadata quorum."""

    node_id: int
    role: str
    lag: int
    caught_up_s_ago: float | None
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition that needs attention, or whose replicas move.

    ``copied_bytes`` of ``total_bytes`` have arrived. None means unknown, or that there is no move.
    """

    topic: str
    partition: int
    leader: int | None
    replicas: str
    isr: str
    adding: str
    removing: str
    lag: int
    copied_bytes: int | None = None
    total_bytes: int | None = None

    @property
    def percent(self) -> int | None:
        """The part of a move that has arrived, in percent. None if it is unknown."""
        if self.copied_bytes is None or not self.total_bytes:
            return None
        return min(100, 100 * self.copied_bytes // self.total_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPage:
    """Everything that the page shows.

    ``is_hidden`` means that the person may not describe the cluster, and so sees no figures.
    """

    cluster_id: str
    is_hidden: bool
    mark: str
    state: str
    controller: str
    epoch: int
    topic_count: int
    partition_count: int
    offline_count: int
    under_replicated_count: int
    size_bytes: int
    findings: tuple[FindingRow, ...]
    brokers: tuple[BrokerRow, ...]
    quorum: tuple[QuorumRow, ...]
    unwell: tuple[PartitionRow, ...]
    moves: tuple[PartitionRow, ...]


def cluster_page(
    state: ClusterState,
    findings: Sequence[Finding],
    moves: Sequence[tuple[Move, int]] = (),
) -> ClusterPage:
    """Return the page of a cluster. ``moves`` has each move with the bytes that have arrived."""
    arrived = {
        move.where: (min(count, move.copied_bytes), move.copied_bytes) for move, count in moves
    }
    partitions = state.layout.partitions
    offline = [each for each in partitions if each.leader == NO_LEADER]
    under = [
        each
        for each in partitions
        if each.leader != NO_LEADER and is_under_replicated(each, state.layout.observers)
    ]
    severity = worst(findings)
    leader = state.quorum.leader_id
    return ClusterPage(
        cluster_id=state.cluster_id,
        is_hidden=state.is_hidden,
        mark=MARKS[severity],
        state=STATES[severity],
        controller=str(leader) if leader != NO_LEADER else "unknown" if state.is_hidden else "none",
        epoch=state.quorum.leader_epoch,
        topic_count=len({each.where.topic for each in partitions}),
        partition_count=len(partitions),
        offline_count=len(offline),
        under_replicated_count=len(under),
        size_bytes=sum(each.size_bytes for each in partitions),
        findings=tuple(map(_finding_row, findings)),
        brokers=_broker_rows(state),
        quorum=tuple(_quorum_row(state, each) for each in state.quorum.members),
        unwell=tuple(map(_partition_row, [*offline, *under][:MAX_SHOWN_PARTITIONS])),
        moves=tuple(
            [
                _partition_row(each, *arrived.get(each.where, (None, None)))
                for each in partitions
                if each.is_moving
            ][:MAX_SHOWN_PARTITIONS]
        ),
    )


def _finding_row(finding: Finding) -> FindingRow:
    return FindingRow(
        mark=MARKS[finding.severity], text=finding.text, advice=ADVICE.get(finding.check, "")
    )


def _broker_rows(state: ClusterState) -> tuple[BrokerRow, ...]:
    leaders, replicas = Counter[int](), Counter[int]()
    in_sync, lags = Counter[int](), dict[int, int]()
    for partition in state.layout.partitions:
        leaders[partition.leader] += 1
        for replica in partition.replicas:
            replicas[replica] += 1
            in_sync[replica] += replica in partition.isr
            lags[replica] = max(lags.get(replica, 0), partition.lags.get(replica, 0))
    rows = []
    for broker in state.layout.brokers:
        own = broker.broker_id
        told = state.state_of(broker)
        member = next((each for each in state.quorum.members if each.node_id == own), None)
        rows.append(
            BrokerRow(
                broker_id=own,
                state=told,
                mark="good" if told == "serves" else "degraded",
                address=broker.address,
                rack=broker.rack or "",
                leader_count=leaders[own],
                replica_count=replicas[own],
                in_sync_count=in_sync[own],
                lag=lags.get(own, 0),
                quorum="" if member is None else state.quorum.role_of(member),
                directories=_directory_rows(broker),
            )
        )
    return tuple(rows)


def _directory_rows(broker: BrokerLayout) -> tuple[DirectoryRow, ...]:
    return tuple(
        DirectoryRow(
            path=each.path,
            state="failed" if not each.is_online else "cordoned" if each.is_cordoned else "online",
            used_bytes=each.used_bytes,
            usable_bytes=each.usable_bytes,
            total_bytes=each.total_bytes,
            full_percent=round(100 * (1 - each.usable_bytes / each.total_bytes))
            if each.total_bytes > 0
            else None,
        )
        for each in broker.log_dirs
    )


def _quorum_row(state: ClusterState, member: QuorumMember) -> QuorumRow:
    ago_ms = member.caught_up_ms_ago
    return QuorumRow(
        node_id=member.node_id,
        role=state.quorum.role_of(member),
        lag=member.lag,
        caught_up_s_ago=None if ago_ms < 0 else ago_ms / 1_000,
        mark="degraded" if member.is_behind else "good",
    )


def _partition_row(
    partition: PartitionLayout, copied_bytes: int | None = None, total_bytes: int | None = None
) -> PartitionRow:
    return PartitionRow(
        topic=partition.where.topic,
        partition=partition.where.partition,
        leader=None if partition.leader == NO_LEADER else partition.leader,
        replicas=_listed(partition.replicas),
        isr=_listed(partition.isr),
        adding=_listed(partition.adding),
        removing=_listed(partition.removing),
        lag=max(partition.lags.values(), default=0),
        copied_bytes=copied_bytes,
        total_bytes=total_bytes,
    )


def _listed(broker_ids: Sequence[int]) -> str:
    return ", ".join(map(str, broker_ids))
