"""Watches the transactions in the committed batches of a simulated cluster.

It reads rows, markers, and the coordinators' own log.

Decides nothing for the nodes, and knows no client. It is told each batch once it is committed, in
the order of its partition. The promises:

* the epoch of a producer never falls in a partition, nor does that of the coordinator in its
  markers;
* a marker is written once its outcome is committed in the coordinator's log, and says the same; so
  no two partitions have different ends of one transaction;
* a transactional id moves only as the table of KIP-98 and KIP-890 says, its epoch never falls, and
  what a transaction has grows only;
* it is complete only when all of its partitions have the marker.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from log_service.common.types import TRANSACTION_STATE_TOPIC, TopicPartition
from log_service.coordinator.transaction.records import decode
from log_service.coordinator.transaction.transaction import Transaction, TransactionState
from log_service.records.batch import BatchHeader, iterate_records
from log_service.records.control import read_marker

RULE = "transactions"
Report = Callable[[str, str], None]
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = (
    TransactionState(number) for number in range(6)
)
AT_REST = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
MAY_FOLLOW = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: AT_REST | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
}
"""From which states each may be reached."""


class Rows(NamedTuple):
    """A batch of a producer's transaction."""

    producer_id: int
    epoch: int


class Marker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int


class Moves(NamedTuple):
    """Transactional ids as a batch of the coordinators' log leaves them."""

    ids: tuple[tuple[str, Transaction | None], ...]


Told = Rows | Marker | Moves


def told_of(topic: str, content: bytes, position: int, header: BatchHeader) -> Told | None:
    """Return what a batch says of transactions; None where it says nothing."""
    if topic == TRANSACTION_STATE_TOPIC and not header.is_control:
        found = [
            decode(record.key or b"", record.value) for record in iterate_records(content, position)
        ]
        return Moves(
            tuple((each.transactional_id, each.transaction) for each in found if each is not None)
        )
    if not header.is_transactional:
        return None
    if not header.is_control:
        return Rows(header.producer_id, header.producer_epoch)
    marker = read_marker(content[position : position + header.size_bytes])
    return (
        None
        if marker is None
        else Marker(
            header.producer_id, header.producer_epoch, not marker.is_abort, marker.coordinator_epoch
        )
    )


@dataclass(slots=True)
class _Known:
    """One partition has, per producer, its epoch, its last marker, and the start of its open
    transaction.
    """

    epochs: dict[int, int] = field(default_factory=dict)
    markers: dict[int, Marker] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)


class TransactionWitness:
    """Watches the committed batches that it is told of."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._known: dict[TopicPartition, _Known] = {}
        self._ids: dict[str, Transaction] = {}
        self._outcomes: set[tuple[int, int, bool]] = set()
        """Each outcome that is stored: producer id, epoch of its markers, whether it is a commit.
        """
        self._unsettled: list[Callable[[], None]] = []

    def take(self, name: TopicPartition, offset: int, told: Told) -> None:
        """Take a batch that is committed from now on."""
        known = self._known.setdefault(name, _Known())
        match told:
            case Rows(producer_id, epoch):
                self._check_epoch(name, known, producer_id, epoch, offset)
                known.open.setdefault(producer_id, offset)
            case Marker():
                self._take_marker(name, known, told, offset)
            case Moves(ids):
                for transactional_id, transaction in ids:
                    self._take_move(transactional_id, transaction)

    def forget(self, name: TopicPartition) -> None:
        """A fault took records of a partition that nothing promised to keep: begin anew with it."""
        self._known.pop(name, None)

    def settle(self) -> None:
        """Check what depends on several partitions, once all of one moment is known."""
        unsettled, self._unsettled = self._unsettled, []
        for check in unsettled:
            check()

    def last_stable_offset(
        self, name: TopicPartition, high_watermark: int, but: Collection[int] = ()
    ) -> int:
        """Return the last stable offset of a partition that is committed up to ``high_watermark``.

        ``but`` are producers to pass over.
        """
        known = self._known.get(name)
        begun = (
            ()
            if known is None
            else (offset for producer_id, offset in known.open.items() if producer_id not in but)
        )
        return min(begun, default=high_watermark)

    def _check_epoch(
        self, name: TopicPartition, known: _Known, producer_id: int, epoch: int, offset: int
    ) -> None:
        latest = known.epochs.setdefault(producer_id, epoch)
        if epoch < latest:
            self._report(
                RULE,
                f"{name} has epoch {epoch} of producer {producer_id} at {offset}, behind epoch {latest}",
            )
        known.epochs[producer_id] = max(epoch, latest)

    def _take_marker(
        self, name: TopicPartition, known: _Known, marker: Marker, offset: int
    ) -> None:
        self._check_epoch(name, known, marker.producer_id, marker.epoch, offset)
        before = known.markers.get(marker.producer_id)
        if before is not None and marker.coordinator_epoch < before.coordinator_epoch:
            self._report(RULE, f"{name} has {marker} at {offset}, behind {before}")
        known.markers[marker.producer_id] = marker
        known.open.pop(marker.producer_id, None)

        def is_justified() -> None:
            if (marker.producer_id, marker.epoch, marker.is_commit) not in self._outcomes:
                self._report(
                    RULE, f"{name} has {marker} at {offset}, and no coordinator has stored that"
                )

        self._unsettled.append(is_justified)

    def _take_move(self, transactional_id: str, transaction: Transaction | None) -> None:
        before = self._ids.pop(transactional_id, None)
        if transaction is None:
            return
        self._ids[transactional_id] = transaction
        if transaction.is_ending:
            self._outcomes.add(
                (transaction.producer_id, transaction.producer_epoch, transaction.is_commit)
            )
        if before is None:
            return
        if before.state not in MAY_FOLLOW[transaction.state]:
            self._report(RULE, f"{transactional_id} went from {before} to {transaction}")
        if (
            transaction.producer_id == before.producer_id
            and transaction.producer_epoch < before.producer_epoch
        ):
            self._report(
                RULE, f"{transactional_id} fell from epoch {before.producer_epoch} to {transaction}"
            )
        if before.state is ONGOING and not before.partitions <= transaction.partitions:
            self._report(RULE, f"{transactional_id} lost partitions of {before}: {transaction}")
        if before.is_ending:
            self._unsettled.append(lambda: self._check_complete(transactional_id, before))

    def _check_complete(self, transactional_id: str, prepared: Transaction) -> None:
        for name in sorted(prepared.partitions):
            known = self._known.get(name)
            marker = None if known is None else known.markers.get(prepared.producer_id)
            is_there = marker is not None and (marker.epoch, marker.is_commit) == (
                prepared.producer_epoch,
                prepared.is_commit,
            )
            if not is_there:
                self._report(
                    RULE,
                    f"{transactional_id} is complete, and {name} has {marker} in place of the end of {prepared}",
                )
