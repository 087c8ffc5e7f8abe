"""Watches the replicas of every partition of a simulated cluster.

It compares them with each other from outside.

Decides nothing for the nodes: it reads their partitions, and the bytes of their logs as they lie in
the files. The promises, each checked whenever something of it has changed:

* one process leads a leader epoch of a partition; its high watermark never goes back in that epoch;
* it moves on only while as many replicas are in sync as ``min.insync.replicas`` asks for (KIP-966);
* one batch per leader epoch and offset, byte for byte, on every replica, for ever;
* what a leader's high watermark has passed is *committed*: each leader of a later epoch has it, and
  so has each member of the in-sync replicas and each eligible leader replica that runs; no follower
  believes more to be committed than that. A process that was held up may come to lead an epoch that
  is over: it lacks what later epochs have committed, and commits nothing itself;
* where replicas sync first, each member of the in-sync replicas has on its disk, durably, what is
  committed;
* the last stable offset of a leader is where the first transaction begins that is open in what is
  committed; what batches, markers and ``__transaction_state`` say of transactions is for
  ``transaction_witness`` to judge;
* no reader gets what is not committed, and no producer with ``acks=all`` is told of it as if it
  were.

A partition whose records a fault of the plan may take is excused from what is committed; from the
rest none is. Where an unclean election may be held, it takes what its leader lacks, and what the
leader before it commits later: ``on_lost`` hears from which offset on.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from log_service.common.types import TopicPartition
from log_service.metadata.partition import RECOVERING
from log_service.records.batch import CorruptBatch, iterate_headers
from log_service.replication.partition import Partition
from log_service.replication.partition_state import PartitionState
from log_service.storage.log import Log
from tests.sim.disk import Disk, Inode
from tests.sim.durable_log import DurableLog
from tests.sim.node_history import SeenRecord
from tests.sim.node_host import Incarnation, NodeHost
from tests.sim.quorum_witness import Report
from tests.sim.transaction_witness import Marker, Told, TransactionWitness, told_of

RULE = "replicas"
Key = tuple[int, int]
"""A topic's id, as a number, and a partition's index."""


class Stored(NamedTuple):
    """A batch as it lies in a log. ``crc`` stands for its bytes."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    size_bytes: int
    told: Told | None = None
    """What it says of transactions."""


class Mark(NamedTuple):
    """The part of a replica that is compared with the last look first.

    Nothing else happens if it is the same.
    """

    is_leader: bool
    leader_epoch: int
    high_watermark: int
    log_end_offset: int
    isr: tuple[int, ...]
    log: Log
    last_stable_offset: int


@dataclass(slots=True, eq=False)
class Replica:
    """One process's replica of a partition, and what was read of its log."""

    who: tuple[str, int]
    host: NodeHost
    incarnation: Incarnation
    partition: Partition
    mark: Mark | None = None
    batches: list[Stored] = field(default_factory=list)
    inode: Inode | None = None
    position: int = 0
    base_offset: int = -1
    found_end_offset: int = 0
    """Where the log ended when the process found it."""

    @property
    def log_end_offset(self) -> int:
        """The end of the log as it was at the last look."""
        return self.mark.log_end_offset if self.mark is not None else 0


class ReplicaWitness:
    """Watches the nodes that it is shown. ``is_kept(name, index)`` says whether nothing that is
    committed there may be lost.

    ``may_be_unclean(topic)`` says whether unclean elections may be held there, ``on_lost(partition,
    offset)`` hears of what they take.
    """

    def __init__(
        self,
        report: Report,
        is_kept: Callable[[str, int], bool],
        *,
        may_be_unclean: Callable[[str], bool] = lambda _topic: False,
        on_lost: Callable[[TopicPartition, int], None] = lambda _partition, _offset: None,
    ) -> None:
        self._may_be_unclean = may_be_unclean
        self._on_lost = on_lost
        self._taken: dict[TopicPartition, tuple[int, int]] = {}
        """The leader epoch of the last unclean election that took something, and from which offset
        on.
        """
        self._durable: dict[tuple[str, Path], DurableLog] = {}
        self._hosts: dict[str, NodeHost] = {}
        self._report = report
        self._is_kept = is_kept
        self.replicas: dict[str, dict[tuple[str, int], Replica]] = {}
        self._incarnations: dict[str, Incarnation] = {}
        self._hosts_by_id: dict[int, str] = {}
        self._leaders: dict[tuple[Key, int], tuple[str, int]] = {}
        self._written: dict[tuple[Key, int, int], Stored] = {}
        self.transactions = TransactionWitness(report)
        self.committed: dict[Key, list[Stored]] = {}
        self._commit_epochs: dict[Key, list[int]] = {}
        """In which leader epoch each of these batches was committed."""
        self.ends: dict[TopicPartition, int] = {}
        """How far each partition is committed, by name."""

    def look(self, hosts: Iterable[tuple[NodeHost, Incarnation]]) -> None:
        """Look at the partitions of some nodes.

        All leaders come first, since followers believe what leaders tell.
        """
        changed: list[tuple[Replica, Mark | None]] = []
        for host, incarnation in hosts:
            changed += self._changed(host, incarnation)
        for replica, before in changed:
            self._check_leader(replica, before)
        for replica, before in changed:
            self._check_follower(replica, before)
            self._check_members(replica)
        for replica, _ in changed:
            self._check_stable(replica)
        self.transactions.settle()

    def check_read(
        self, topic: str, index: int, records: Sequence[SeenRecord], reader: str
    ) -> None:
        """Check that what a reader got is committed."""
        end = self.ends.get(TopicPartition(topic, index), 0)
        if records and records[-1].offset >= end:
            self._report(
                RULE,
                f"{reader} got {records[-1]} of {topic}-{index}, where only {end} records are committed",
            )

    def check_acknowledged(self, topic: str, index: int, offset: int, producer: str) -> None:
        """Check that what a producer with ``acks=all`` was told to be there is committed."""
        end = self.ends.get(TopicPartition(topic, index), 0)
        if offset >= end:
            self._report(
                RULE,
                f"{producer} has an acknowledgement for {offset} of {topic}-{index}, where only {end} records are committed",
            )

    # What has changed

    def _changed(
        self, host: NodeHost, incarnation: Incarnation
    ) -> Iterator[tuple[Replica, Mark | None]]:
        rooms = incarnation.broker.open_rooms
        if rooms is None:
            return
        self._hosts_by_id[host.node_id] = host.name
        self._hosts[host.name] = host
        if self._incarnations.get(host.name) is not incarnation:
            self._incarnations[host.name] = incarnation
            self.replicas[host.name] = {}
        known = self.replicas[host.name]
        for name, partition in rooms.replicas.partitions.items():
            log, state = partition.log, partition.state
            if log is None:
                continue
            replica = known.get(name)
            if (
                replica is not None
                and replica.partition is partition
                and _is_the_same(replica.mark, state, log)
            ):
                continue
            mark = _mark(state, log)
            if replica is None or replica.partition is not partition:
                end_offset = log.log_end_offset
                replica = known[name] = Replica(
                    (host.name, incarnation.number),
                    host,
                    incarnation,
                    partition,
                    found_end_offset=end_offset,
                )
            before, replica.mark = replica.mark, mark
            if (
                before is None
                or before.log_end_offset != mark.log_end_offset
                or before.log is not log
            ):
                self._read_on(replica, host.disk, log, before)
            yield replica, before

    def _read_on(self, replica: Replica, disk: Disk, log: Log, before: Mark | None) -> None:
        """Read what was appended, or everything again after a truncation."""
        is_grown = (
            before is not None and before.log is log and log.log_end_offset > before.log_end_offset
        )
        if not is_grown or not _is_read_on(replica, disk, log):
            replica.batches, replica.inode, replica.position, replica.base_offset = [], None, 0, -1
        fresh = _fresh_batches(replica, disk, log)
        replica.batches += fresh
        if log.config.is_compacted:
            return  # a cleaner may have changed a batch on one replica and not yet on another
        key = _key_of(replica.partition)
        for batch in fresh:
            first = self._written.setdefault((key, batch.leader_epoch, batch.base_offset), batch)
            if first != batch:
                name = replica.partition.topic_partition
                self._report(
                    RULE,
                    f"{replica.who} has {batch} in {name}, where {first} was written in that epoch",
                )

    # Promises

    def _check_leader(self, replica: Replica, before: Mark | None) -> None:
        mark, name, key = (
            replica.mark,
            replica.partition.topic_partition,
            _key_of(replica.partition),
        )
        assert mark is not None
        if not mark.is_leader:
            if (
                before is not None
                and before.is_leader
                and mark.high_watermark > before.high_watermark
            ):
                # It moved, and lost its leadership, in one moment.
                self._commit(replica, mark.high_watermark)
            return
        was_leader = (
            before is not None and before.is_leader and before.leader_epoch == mark.leader_epoch
        )
        if not was_leader:
            replica.host.note_leading()
            first = self._leaders.setdefault((key, mark.leader_epoch), replica.who)
            if first != replica.who:
                self._report(
                    RULE,
                    f"{name} is led in epoch {mark.leader_epoch} by {first} and by {replica.who}",
                )
            self._check_has_committed(replica)
        elif before is not None and mark.high_watermark < before.high_watermark:
            text = f"{before.high_watermark} to {mark.high_watermark} in epoch {mark.leader_epoch}"
            self._report(
                RULE,
                f"the high watermark of {name} went back on its leader {replica.who} from {text}",
            )
        elif before is not None and mark.high_watermark > before.high_watermark:
            state = replica.partition.state
            wanted = min(state.min_insync_replicas, len(state.replicas))
            if max(len(before.isr), len(mark.isr)) < wanted:
                text = f"to {mark.high_watermark} on {replica.who} with the ISR {mark.isr}, and the topic asks for {wanted} in it"
                self._report(RULE, f"the high watermark of {name} moved {text}")
        self._commit(replica, mark.high_watermark)

    def _commit(self, replica: Replica, high_watermark: int) -> None:
        name = replica.partition.topic_partition
        committed = self.committed.setdefault(_key_of(replica.partition), [])
        end = committed[-1].last_offset + 1 if committed else 0
        epoch, first_taken = self._taken.get(name, (-1, 0))
        if replica.partition.leader_epoch < epoch:
            self._on_lost(name, first_taken)
            self.ends[name] = max(self.ends.get(name, 0), high_watermark)
            return
        if high_watermark > end:
            fresh = [
                batch
                for batch in replica.batches
                if end <= batch.base_offset and batch.last_offset < high_watermark
            ]
            committed += fresh
            epochs = self._commit_epochs.setdefault(_key_of(replica.partition), [])
            epochs += [replica.partition.leader_epoch] * len(fresh)
            for batch in fresh:
                if batch.told is not None:
                    self.transactions.take(
                        replica.partition.topic_partition, batch.base_offset, batch.told
                    )
            if fresh and replica.partition.state.is_synced_first:
                self._check_durable(replica, fresh[-1])
        self.ends[name] = max(self.ends.get(name, 0), high_watermark)

    def _check_stable(self, replica: Replica) -> None:
        """A leader lets readers of committed records read up to the first open transaction.

        It is open in what is committed, and they read no further.

        Excused is what a process cannot know, as with Apache Kafka: where it finds a marker at its
        start that is not committed yet, what it loads says that the transaction has ended, and not
        where that began.
        """
        mark, name = replica.mark, replica.partition.topic_partition
        if mark is None or not mark.is_leader or mark.high_watermark != self.ends.get(name):
            return
        found = (
            batch.told
            for batch in replica.batches
            if mark.high_watermark <= batch.base_offset < replica.found_end_offset
        )
        ended_here = {told.producer_id for told in found if isinstance(told, Marker)}
        expected = self.transactions.last_stable_offset(name, mark.high_watermark)
        if mark.last_stable_offset not in (
            expected,
            self.transactions.last_stable_offset(name, mark.high_watermark, ended_here),
        ):
            text = f"{mark.last_stable_offset} of {name}, where {expected} of {mark.high_watermark} are stable"
            self._report(RULE, f"{replica.who} has the last stable offset {text}")

    def _check_durable(self, leader: Replica, batch: Stored) -> None:
        """Each in-sync replica has on its disk what has just been committed, also one that is dead by now.

        Excused is a dead one whose disk was replaced while its last fetch was on its way to the
        leader, and one that has learned before the leader that the partition is no longer its own,
        and has deleted it.
        """
        assert leader.mark is not None
        name = leader.partition.topic_partition
        for broker_id in leader.mark.isr:
            host = self._hosts_by_id.get(broker_id, "")
            replica = self.replicas.get(host, {}).get(name)
            if (
                replica is None
                or replica.partition.log is None
                or _key_of(replica.partition) != _key_of(leader.partition)
            ):
                continue
            directory = replica.partition.log.directory
            log = self._durable.get((host, directory))
            if log is None:
                log = self._durable[host, directory] = DurableLog(self._hosts[host].disk, directory)
            is_excused = not log.is_there and (
                not replica.incarnation.is_running or not _is_assigned(replica, broker_id)
            )
            if not is_excused and not log.holds(batch.base_offset, batch.leader_epoch):
                text = f"and {host}, in the ISR {leader.mark.isr}, has not synced that"
                self._report(
                    RULE,
                    f"{leader.who} committed {batch.base_offset} of epoch {batch.leader_epoch} in {name}, {text}",
                )

    def _check_has_committed(self, replica: Replica) -> None:
        """A new leader has what epochs before its own committed.

        If a fault may have taken some, what is left counts from now on.
        """
        key, log, leader_epoch = (
            _key_of(replica.partition),
            replica.partition.log,
            replica.partition.leader_epoch,
        )
        epochs = self._commit_epochs.get(key, [])
        committed = self.committed.get(key, [])[: bisect_left(epochs, leader_epoch)]
        if log is None or log.config.is_compacted or not committed:
            return
        found = {batch.base_offset: batch for batch in replica.batches}
        missing = [
            batch
            for batch in committed
            if batch.base_offset >= log.log_start_offset and found.get(batch.base_offset) != batch
        ]
        if not missing:
            return
        name = replica.partition.topic_partition
        if self._is_unclean(replica):
            self._taken[name] = leader_epoch, missing[0].base_offset
            self._on_lost(name, missing[0].base_offset)
        elif self._is_kept(*name):
            text = f"{missing[0]}, and {len(missing) - 1} more: at that offset it has {found.get(missing[0].base_offset)}"
            self._report(
                RULE,
                f"{replica.who} leads {name} in epoch {leader_epoch} without the committed {text}",
            )
        self.committed[key] = [
            batch for batch in committed if batch.base_offset < missing[0].base_offset
        ]
        del epochs[len(self.committed[key]) :]
        self.transactions.forget(name)

    def _is_unclean(self, replica: Replica) -> bool:
        """Whether a leader was elected uncleanly, as the metadata say, where that may be."""
        registration, name = replica.partition.state.registration, replica.partition.topic_partition
        return (
            registration is not None
            and registration.leader_recovery_state == RECOVERING
            and self._may_be_unclean(name.topic)
        )

    def _check_follower(self, replica: Replica, before: Mark | None) -> None:
        """A follower believes nothing to be committed that no leader has committed, and keeps what
        is.
        """
        mark, name = replica.mark, replica.partition.topic_partition
        assert mark is not None
        if mark.is_leader or not self._is_kept(*name) or name in self._taken:
            return
        end = self.ends.get(name, 0)
        if mark.high_watermark > end:
            self._report(
                RULE,
                f"follower {replica.who} of {name} has high watermark {mark.high_watermark}, and {end} are committed",
            )
        if (
            before is not None
            and before.log is mark.log
            and mark.log_end_offset < min(before.log_end_offset, before.high_watermark)
        ):
            text = f"from {before.log_end_offset} to {mark.log_end_offset}, below its high watermark {before.high_watermark}"
            self._report(RULE, f"follower {replica.who} cut {name} {text}")

    def _check_members(self, replica: Replica) -> None:
        """Each running in-sync replica has what it or a leader before committed.

        It runs in the life that the leader knows.

        A leader that does not know of its successor yet knows old in-sync replicas: what a later
        leader committed is not theirs to have.
        """
        leader, name = self._newest_leader(replica), replica.partition.topic_partition
        if leader is None or leader.mark is None or not self._is_kept(*name):
            return
        state, registration = leader.partition.state, leader.partition.state.registration
        is_latest = (
            registration is not None and registration.partition_epoch == state.partition_epoch
        )
        eligible = (
            registration.eligible_leader_replicas if registration is not None and is_latest else ()
        )
        brokers = leader.incarnation.broker.image.cluster.brokers
        committed = self.committed.get(_key_of(leader.partition))
        if committed and committed[-1].leader_epoch > leader.partition.leader_epoch:
            return
        end = max(leader.mark.high_watermark, committed[-1].last_offset + 1 if committed else 0)
        for broker_id in sorted({*leader.mark.isr, *eligible}):
            member, known = self._member(broker_id, name), brokers.get(broker_id)  # type: ignore[call-overload]
            if member is None or known is None or member is leader:
                continue
            rooms = member.incarnation.broker.open_rooms
            if (
                rooms is None
                or rooms.lifecycle.broker_epoch != known.epoch
                or _key_of(member.partition) != _key_of(leader.partition)
            ):
                continue
            if member.log_end_offset < end:
                text = f"has {member.log_end_offset} of the {end} records that are committed"
                self._report(
                    RULE,
                    f"{member.who}, in the ISR {leader.mark.isr} or ELR {eligible} of {name}, {text}",
                )

    def _newest_leader(self, replica: Replica) -> Replica | None:
        name = replica.partition.topic_partition
        leaders = [
            found
            for host, replicas in self.replicas.items()
            if (found := replicas.get(name)) is not None
            and self._incarnations[host].is_running
            and found.mark is not None
            and found.mark.is_leader
            and _key_of(found.partition) == _key_of(replica.partition)
        ]
        return max(leaders, key=lambda each: each.partition.leader_epoch, default=None)

    def _member(self, broker_id: int, name: TopicPartition) -> Replica | None:
        host = self._hosts_by_id.get(broker_id, "")
        incarnation = self._incarnations.get(host)
        if incarnation is None or not incarnation.is_running:
            return None
        found = self.replicas[host].get(name)
        return None if found is None or found.partition.is_offline else found


def _is_assigned(replica: Replica, broker_id: int) -> bool:
    """Whether the metadata that a running node knows say that the partition is one of its own."""
    registration = replica.incarnation.broker.image.topics.partition(
        *replica.partition.topic_partition
    )
    return registration is not None and broker_id in registration.replicas


def _mark(state: PartitionState, log: Log) -> Mark:
    return Mark(
        state.is_leader,
        state.leader_epoch,
        state.high_watermark,
        log.log_end_offset,
        state.isr,
        log,
        state.last_stable_offset,
    )


def _is_the_same(mark: Mark | None, state: PartitionState, log: Log) -> bool:
    """Whether nothing has changed since a mark was made.

    It is asked of every partition at every look, so it makes nothing new.
    """
    return (
        mark is not None
        and mark.log_end_offset == log.log_end_offset
        and mark.high_watermark == state.high_watermark
        and mark.last_stable_offset == state.last_stable_offset
        and mark.isr == state.isr
        and mark.leader_epoch == state.leader_epoch
        and mark.is_leader == state.is_leader
        and mark.log is log
    )


def _key_of(partition: Partition) -> Key:
    return partition.topic_id.int, partition.topic_partition.partition


def _is_read_on(replica: Replica, disk: Disk, log: Log) -> bool:
    """Whether the last read file is still part of the log, or was taken away from its start.

    Otherwise the log began anew.
    """
    segments = list(log.segments)
    known = next(
        (segment for segment in segments if segment.base_offset == replica.base_offset), None
    )
    return (
        segments[0].base_offset > replica.base_offset
        if known is None
        else disk.find(known.path()) is replica.inode
    )


def _fresh_batches(replica: Replica, disk: Disk, log: Log) -> list[Stored]:
    """Read a log on from where it was read to.

    A file that the cleaner or retention took away is still at hand.
    """
    fresh: list[Stored] = []
    if replica.inode is not None:
        fresh += _batches_from(replica, bytes(replica.inode.content[replica.position :]))
    for segment in list(log.segments):
        node = disk.find(segment.path()) if segment.base_offset > replica.base_offset else None
        if isinstance(node, Inode):
            replica.inode, replica.position, replica.base_offset = node, 0, segment.base_offset
            fresh += _batches_from(replica, bytes(node.content[: segment.size_bytes]))
    return fresh


def _batches_from(replica: Replica, content: bytes) -> list[Stored]:
    found: list[Stored] = []
    start = replica.position
    try:
        for position, header in iterate_headers(content, is_torn_tail_ok=True):
            told = told_of(replica.partition.topic_partition.topic, content, position, header)
            epoch = header.partition_leader_epoch
            found.append(
                Stored(
                    header.base_offset,
                    header.last_offset,
                    epoch,
                    header.crc,
                    header.size_bytes,
                    told,
                )
            )
            replica.position = start + position + header.size_bytes
    except CorruptBatch:
        pass  # the audit of the disk says what is wrong
    return found
