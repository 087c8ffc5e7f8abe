"""Finds a cluster's problems, the worst first.

They include offline partitions, lost voters, partitions under min ISR, brokers that are down, and
full disks. This module decides which facts are findings and how bad they are. A finding is
``FAILED`` if clients cannot read or write something now, ``DEGRADED`` if all works but the next
failure may lose data or availability, and ``NOTICE`` if nothing is at risk. A new check is a name
in ``CHECKS``, and a function that ``findings_of`` calls.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from log_service.cluster_plans.layout import (
    NO_LEADER,
    ClusterLayout,
    LogDirectory,
    PartitionLayout,
    why_cordoned,
)
from log_service.common.disk_reserve import DISK_RESERVE_BYTES

MAX_NAMED = 5
DISK_FULL_PERCENT = 85
"""A disk is nearly full from here on, unless the caller passes another share.

A reassignment or a burst may fill the rest.
"""
QUORUM_LAG_OFFSETS = 20
QUORUM_LAG_MS = 10_000
"""A voter has a problem if it caught up longer ago than this.

If that time is not known, its lag is compared with ``QUORUM_LAG_OFFSETS``.

A healthy quorum writes a metadata record every 500 ms, so a short delay is normal.
"""
LEADER_SKEW_SHARE = 0.1


class Severity(IntEnum):
    """How bad a finding is."""

    NOTICE = 1
    DEGRADED = 2
    FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem. ``check`` is the name of the check.

    ``items`` are the affected brokers, partitions or directories.
    """

    check: str
    severity: Severity
    text: str
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """A voter or observer.

    ``lag`` is the lag to the leader in records. ``caught_up_ms_ago`` is -1 if that is not known.
    """

    node_id: int
    is_voter: bool
    lag: int
    caught_up_ms_ago: int = -1

    @property
    def is_behind(self) -> bool:
        """Whether the member caught up longer ago than a momentary delay explains.

        If that time is not known, its lag in records decides.
        """
        return self.caught_up_ms_ago > QUORUM_LAG_MS or (
            self.caught_up_ms_ago < 0 and self.lag > QUORUM_LAG_OFFSETS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The metadata quorum. ``leader_id`` is -1 while it has no leader."""

    leader_id: int
    leader_epoch: int
    members: tuple[QuorumMember, ...]

    def role_of(self, member: QuorumMember) -> str:
        """Return a member's role in the quorum."""
        if not member.is_voter:
            return "observer"
        return "leader" if member.node_id == self.leader_id else "voter"

    @property
    def voters(self) -> tuple[QuorumMember, ...]:
        """The members of the quorum that vote."""
        return tuple(member for member in self.members if member.is_voter)


CHECKS = (
    "offline_partitions",
    "brokers",
    "quorum",
    "under_min_isr",
    "log_directories",
    "under_replicated",
    "disk",
    "leader_balance",
    "reassignments",
    "throttles",
    "cordoned",
    "rights",
)
"""The names of all checks, causes before their effects. A check without a finding has passed."""


def findings_of(
    layout: ClusterLayout,
    quorum: QuorumState,
    throttled: Sequence[int] = (),
    *,
    disk_full_percent: int = DISK_FULL_PERCENT,
) -> list[Finding]:
    """Return the problems of a cluster, the worst first.

    ``throttled`` are the brokers with a replication throttle. A disk is nearly full if more than
    ``disk_full_percent`` of it cannot be written any more, because it is used or reserved.
    """
    found = [
        *_partition_findings(layout.partitions, layout.observers),
        *_quorum_findings(quorum, layout.active),
        *_single_voter_findings(layout, quorum),
        *_broker_findings(layout),
        *_directory_findings(layout, disk_full_percent),
        *_leader_findings(layout),
        *_throttle_findings(layout, throttled),
        *_cordon_findings(layout),
    ]
    return sorted(found, key=lambda finding: (-finding.severity, CHECKS.index(finding.check)))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity, None without findings."""
    return max((finding.severity for finding in findings), default=None)


def _partition_findings(
    partitions: Sequence[PartitionLayout], observers: frozenset[int]
) -> Iterator[Finding]:
    offline = [each for each in partitions if each.leader == NO_LEADER]
    online = [each for each in partitions if each.leader != NO_LEADER]
    under_min = [each for each in online if len(each.isr) < min(each.min_isr, len(each.replicas))]
    lagging = [each for each in online if is_under_replicated(each, observers)]
    moving = [each for each in partitions if each.is_moving]
    if offline:
        yield _finding(
            "offline_partitions",
            Severity.FAILED,
            _are(offline, "offline: without a leader they take and give nothing"),
            offline,
        )
    if under_min:
        text = _are(under_min, "under min ISR: acks=all is refused")
        yield _finding("under_min_isr", Severity.FAILED, text, under_min)
    if lagging:
        yield _finding(
            "under_replicated", Severity.DEGRADED, _are(lagging, "under-replicated"), lagging
        )
    if moving:
        yield _finding(
            "reassignments", Severity.NOTICE, _are(moving, "on the way to other brokers"), moving
        )


def is_under_replicated(partition: PartitionLayout, observers: Collection[int]) -> bool:
    """Return whether a replica is out of sync that should be in sync.

    A replica that is being added does not count yet, and a replica on an observer never does.
    """
    return not set(partition.replicas).difference(partition.adding, observers) <= set(partition.isr)


def _finding(
    check: str, severity: Severity, text: str, partitions: Sequence[PartitionLayout]
) -> Finding:
    return Finding(
        check=check,
        severity=severity,
        text=text,
        items=tuple(str(each.where) for each in partitions),
    )


def _are(partitions: Sequence[PartitionLayout], what: str) -> str:
    names = ", ".join(str(each.where) for each in partitions[:MAX_NAMED])
    more = f" and {len(partitions) - MAX_NAMED} more" if len(partitions) > MAX_NAMED else ""
    count = "1 partition is" if len(partitions) == 1 else f"{len(partitions)} partitions are"
    return f"{count} {what} ({names}{more})"


def _quorum_findings(quorum: QuorumState, active: Collection[int]) -> Iterator[Finding]:
    voters = quorum.voters
    behind = [
        member for member in voters if member.is_behind and member.node_id != quorum.leader_id
    ]
    if quorum.leader_id == NO_LEADER:
        yield Finding(
            check="quorum",
            severity=Severity.FAILED,
            text="the metadata quorum has no leader: nothing can be changed",
        )
    elif behind:
        ids = [str(member.node_id) for member in behind]
        present = len(voters) - len(behind)
        spare = present - (len(voters) // 2 + 1)
        left = "no other may fail" if spare <= 0 else f"{spare} more may fail"
        text = (
            f"{'voter' if len(ids) == 1 else 'voters'} {', '.join(ids)} of the metadata quorum"
            f" {'is' if len(ids) == 1 else 'are'} behind"
        )
        yield Finding(
            check="quorum",
            severity=Severity.DEGRADED,
            text=f"{text} ({present} of {len(voters)} are not: {left})",
            items=tuple(ids),
        )
    least_lags = {
        member.node_id: min(each.lag for each in quorum.members if each.node_id == member.node_id)
        for member in quorum.members
    }
    for member in quorum.members:
        # One that is fenced is a finding already. The quorum remembers for minutes a node that has
        # left, and a directory that a node had.
        is_present = member.node_id in active and member.lag == least_lags[member.node_id]
        if not member.is_voter and member.is_behind and is_present:
            text = f"broker {member.node_id} is {member.lag} records behind the metadata log"
            yield Finding(
                check="quorum", severity=Severity.DEGRADED, text=text, items=(str(member.node_id),)
            )


def _single_voter_findings(layout: ClusterLayout, quorum: QuorumState) -> Iterator[Finding]:
    """Yield a finding if several brokers depend on one controller.

    The cluster cannot change any more if that controller is lost.
    """
    if len(quorum.voters) == 1 and len(layout.brokers) > 1:
        only = quorum.voters[0].node_id
        text = (
            f"node {only} is the only controller of {len(layout.brokers)} brokers: while it is down"
            " nothing can be changed, and with its disk the metadata is lost; let two more"
            " controllers vote (tidelog cluster voters add), or begin a cluster of tidelog up with"
            " --brokers 3"
        )
        yield Finding(check="quorum", severity=Severity.NOTICE, text=text, items=(str(only),))


def _broker_findings(layout: ClusterLayout) -> Iterator[Finding]:
    holding = Counter(broker for partition in layout.partitions for broker in partition.replicas)
    for broker in layout.fenced:
        text = (
            f"broker {broker} is fenced: it is down or not ready, with {holding[broker]} replicas"
        )
        if not holding[broker]:
            text = f"{text}; start it, or forget it with 'tidelog cluster unregister {broker}'"
        yield Finding(check="brokers", severity=Severity.DEGRADED, text=text, items=(str(broker),))
    known = {broker.broker_id for broker in layout.brokers}
    for broker in sorted(holding.keys() - known):
        text = f"broker {broker} is not registered, and {holding[broker]} replicas are to be on it"
        yield Finding(check="brokers", severity=Severity.DEGRADED, text=text, items=(str(broker),))


def _directory_findings(layout: ClusterLayout, disk_full_percent: int) -> Iterator[Finding]:
    for broker in layout.brokers:
        for directory in broker.log_dirs:
            item = f"{broker.broker_id}:{directory.path}"
            if not directory.is_online:
                text = f"log directory {directory.path} of broker {broker.broker_id} has failed"
                yield Finding(
                    check="log_directories", severity=Severity.DEGRADED, text=text, items=(item,)
                )
            elif 0 <= directory.usable_bytes < DISK_RESERVE_BYTES and (
                refusing := _led_in(layout, broker.broker_id, directory)
            ):
                text = f"the disk of {directory.path} of broker {broker.broker_id} is full"
                text = f"{text}: {_are(refusing, 'led there, and writes are refused')}"
                yield Finding(check="disk", severity=Severity.FAILED, text=text, items=(item,))
            elif (percent := _percent_full(directory)) > disk_full_percent:
                text = (
                    f"the disk of {directory.path} of broker {broker.broker_id} is {percent:.0f} %"
                    " full"
                )
                yield Finding(check="disk", severity=Severity.DEGRADED, text=text, items=(item,))


def _led_in(
    layout: ClusterLayout, broker_id: int, directory: LogDirectory
) -> list[PartitionLayout]:
    return [
        each
        for each in layout.partitions
        if each.leader == broker_id and each.where in directory.served
    ]


def _percent_full(directory: LogDirectory) -> float:
    return (
        100 * (1 - directory.usable_bytes / directory.total_bytes)
        if directory.total_bytes > 0
        else 0
    )


def _leader_findings(layout: ClusterLayout) -> Iterator[Finding]:
    away = [
        each
        for each in layout.partitions
        if each.leader not in {NO_LEADER, each.replicas[0]}
        and each.replicas[0] in each.isr
        and not each.is_moving
    ]
    if len(away) > LEADER_SKEW_SHARE * len(layout.partitions):
        text = f"{_are(away, 'not led by their preferred leader')}: tidelog cluster elect"
        yield _finding("leader_balance", Severity.NOTICE, text, away)


def _throttle_findings(layout: ClusterLayout, throttled: Sequence[int]) -> Iterator[Finding]:
    """Yield a finding about throttles that moves left on brokers.

    They slow down every replica that catches up later.
    """
    if throttled and not any(each.is_moving for each in layout.partitions):
        brokers = (
            f"{'broker' if len(throttled) == 1 else 'brokers'} {', '.join(map(str, throttled))}"
        )
        text = (
            f"replication is throttled on {brokers} and nothing moves: tidelog cluster watch takes"
            " the throttle away"
        )
        yield Finding(
            check="throttles", severity=Severity.NOTICE, text=text, items=tuple(map(str, throttled))
        )


def _cordon_findings(layout: ClusterLayout) -> Iterator[Finding]:
    """Yield a finding for each cordoned broker, and for each cordoned directory of other brokers.

    New topics and plans do not use them, and do not say so.
    """
    for broker in layout.brokers:
        own = broker.broker_id
        if broker.is_cordoned:
            text = f"broker {own} takes no new partitions: {why_cordoned(broker)}"
            yield Finding(check="cordoned", severity=Severity.NOTICE, text=text, items=(str(own),))
            continue
        for directory in broker.log_dirs:
            if directory.is_cordoned:
                text = (
                    f"log directory {directory.path} of broker {own} takes no new partitions:"
                    " cordoned.log.dirs names it"
                )
                yield Finding(
                    check="cordoned",
                    severity=Severity.NOTICE,
                    text=text,
                    items=(f"{own}:{directory.path}",),
                )
