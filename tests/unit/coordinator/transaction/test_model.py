"""Every reachable state of a transactional id, against a model of what producers may rely on.

The model knows three promises. A transaction's outcome never changes once a producer was told it.
Each of its partitions gets its marker, whatever coordinator takes over in between. And what another
node loads from the log is what this one has.
"""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.coordinator.transaction.markers import DueMarkers
from log_service.coordinator.transaction.records import TransactionRecord, encode
from log_service.coordinator.transaction.transaction import (
    AT_REST,
    ENDING,
    EPOCH_BUMP_VERSION,
    TransactionState,
)
from log_service.state_machine.decision import ReplayContext
from tests.unit.coordinator.transaction.transaction_story import TIMEOUT_MS, TXN, TransactionStory

PARTITIONS = tuple(TopicPartition("t", index) for index in range(3))
LAST_EPOCH = 32_766
MARKER_EPOCH = 32_767
FIRST_EPOCHS = (0, 5, LAST_EPOCH - 2, LAST_EPOCH - 1)


class TransactionModel(RuleBasedStateMachine):
    """A producer, its zombie, the markers that partitions have, and coordinators that come and go."""

    @initialize(server_version=st.sampled_from([0, 1, 2]), epoch=st.sampled_from(FIRST_EPOCHS))
    def begin(self, server_version: int, epoch: int) -> None:
        self.story = TransactionStory(server_version=server_version)
        self.producer = self.zombie = self.story.init()[:2]
        known = replace(self.story.transaction(), producer_epoch=epoch)
        record = TransactionRecord(
            transactional_id=TXN, transaction=known, value_version=min(server_version, 1)
        )
        # the epochs before are long: the model begins near their end
        self.story.shard.replay(record, ReplayContext(0))
        self.story.log[:] = [encode(record)]
        self.producer = (known.producer_id, epoch)
        self.promised: dict[
            tuple[int, int], bool
        ] = {}  # outcomes that a producer was told, by the identity that asked
        self.open: set[TopicPartition] = set()  # partitions in which a transaction is open
        self.highest = self.producer

    # What producers do

    @rule(partition=st.sampled_from(PARTITIONS), version=st.sampled_from([0, 2]))
    def add(self, partition: TopicPartition, version: int) -> None:
        if self.story.add(*self.producer, partition, client_version=version) is ErrorCode.NONE:
            self.open.add(partition)

    @rule(is_commit=st.booleans(), version=st.sampled_from([4, 5]))
    def end(self, is_commit: bool, version: int) -> None:
        was_open = self.story.transaction().state is TransactionState.ONGOING
        producer_id, epoch, code = self.story.end(
            *self.producer, is_commit=is_commit, version=version
        )
        if code is not ErrorCode.NONE:
            return
        if was_open:
            self._promise(version, is_commit=is_commit)
        self.zombie = self.producer
        if version == 5:
            self.producer = (producer_id, epoch)

    def _promise(self, version: int, *, is_commit: bool) -> None:
        """Remember an outcome by its identity, where that identity ends one transaction only.

        A classic end keeps it for the next one.
        """
        for due in self.story.due:
            assert due.is_commit is is_commit
        if version == 5:
            self.promised[self.producer] = is_commit

    @rule(is_commit=st.booleans())
    def end_again(self, is_commit: bool) -> None:
        """A producer that missed the response of its last end asks again: it never hears the other
        outcome.
        """
        code = self.story.end(*self.zombie, is_commit=is_commit)[2]
        if code is ErrorCode.NONE and self.zombie in self.promised and self.zombie != self.producer:
            assert self.promised[self.zombie] is is_commit

    @rule(claims=st.booleans())
    def init(self, claims: bool) -> None:
        producer_id, epoch, code = self.story.init(*(self.producer if claims else (-1, -1)))
        if code is ErrorCode.NONE:
            assert epoch <= LAST_EPOCH
            self.zombie, self.producer = self.producer, (producer_id, epoch)
        else:
            assert code in {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED}

    @rule()
    def a_new_instance_starts(self) -> None:
        """Without an identity a producer is never fenced: at most it waits for markers."""
        _, _, code = self.story.init()
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self._write_everything()
            producer_id, epoch, code = self.story.init()
            self.producer = (producer_id, epoch)
        else:
            found = self.story.transaction()
            self.producer = (found.producer_id, found.producer_epoch)
        assert code is ErrorCode.NONE

    # What time and other nodes do

    @rule()
    def time_out(self) -> None:
        self.story.advance(TIMEOUT_MS + self.story.config.abort_interval_ms)
        assert self.story.transaction().state is not TransactionState.ONGOING

    @rule()
    def another_coordinator_loads(self) -> None:
        before = replace(self.story.transaction(), last_producer_epoch=-1)
        self.story.restart()
        after = self.story.transaction()
        if before.is_ending and not before.partitions:
            assert after.state in AT_REST
        else:
            if self.story.server_version == 0:  # the classic value has no room for these
                before = replace(
                    before,
                    client_version=after.client_version,
                    next_producer_id=after.next_producer_id,
                    previous_producer_id=after.previous_producer_id,
                )
            assert after == before

    @rule(count=st.integers(1, 3))
    def write_some(self, count: int) -> None:
        if self.story.due:
            due = self.story.due[0]
            owed = sorted(self.story.shard.owed(TXN))[:count]
            self._write(due, *owed)
            if len(owed) < count or not self.story.shard.owed(TXN):
                self.story.due.pop(0)

    def _write(self, due: DueMarkers, *partitions: TopicPartition) -> None:
        self.open.difference_update(partitions)
        self.story.write(due, *partitions)

    def _write_everything(self) -> None:
        while self.story.due:
            due = self.story.due.pop(0)
            self._write(due, *due.partitions)
        self.story.advance(0)

    # What always holds

    @invariant()
    def markers_owed_are_never_lost(self) -> None:
        known = self.story.transaction()
        if known.state in ENDING:
            owed = self.story.shard.owed(TXN)
            assert self.open <= owed | frozenset(known.partitions)
            assert owed <= {where for due in self.story.due for where in due.partitions}, (
                "each partition that is owed is announced"
            )
            assert all(
                (due.producer_id, due.producer_epoch) == (known.producer_id, known.producer_epoch)
                for due in self.story.due
            )
        elif known.state is TransactionState.ONGOING:
            assert self.open <= known.partitions
        else:
            assert not self.open, "a transaction is complete, and these partitions have no marker"

    @invariant()
    def only_a_marker_has_the_last_epoch(self) -> None:
        """Send a marker alone with the last epoch.

        A classic abort at it keeps the producer id; a producer that asks again for the end is told
        the marker's epoch.
        """
        known = self.story.transaction()
        assert known.producer_epoch <= MARKER_EPOCH
        assert self.producer[1] <= (
            LAST_EPOCH if self.story.server_version >= EPOCH_BUMP_VERSION else MARKER_EPOCH
        )


TransactionModel.TestCase.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None
)
TestTransactionModel = TransactionModel.TestCase


def test_an_end_that_is_repeated_after_a_classic_abort_at_the_last_epoch_is_told_the_epoch_of_the_marker() -> (
    None
):
    """As Kafka 4.3.1 does where transaction.version is 0. The producer goes on with that epoch, and
    its next end gives it a new id.
    """
    model = TransactionModel()
    model.begin(server_version=0, epoch=LAST_EPOCH - 1)
    model.add(PARTITIONS[0], 0)
    model.end(is_commit=True, version=5)
    model._write_everything()
    model.add(PARTITIONS[0], 0)
    model.time_out()
    model._write_everything()
    producer_id = model.producer[0]
    assert model.producer == (producer_id, LAST_EPOCH)
    model.end(is_commit=False, version=5)
    assert model.producer == (producer_id, MARKER_EPOCH)
    model.only_a_marker_has_the_last_epoch()
    model.add(PARTITIONS[1], 0)
    model.end(is_commit=True, version=5)
    model.markers_owed_are_never_lost()
    model._write_everything()
    assert model.producer == (producer_id + 1, 0)
    model.markers_owed_are_never_lost()


def test_an_abort_without_a_transaction_may_follow_a_classic_commit_of_the_same_epoch() -> None:
    """A producer mixes both generations of EndTxn.

    The commit keeps the epoch, the abort raises it and may be repeated.
    """
    model = TransactionModel()
    model.begin(server_version=0, epoch=0)
    model.add(PARTITIONS[0], 0)
    model.end(is_commit=True, version=4)
    model._write_everything()
    first = model.producer
    model.end(is_commit=False, version=5)
    assert model.producer == (first[0], first[1] + 1)
    model.story.advance(0)
    model.end_again(is_commit=False)
    model.markers_owed_are_never_lost()
