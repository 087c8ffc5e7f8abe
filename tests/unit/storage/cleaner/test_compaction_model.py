"""Generated histories keep exactly the records that Kafka's rules keep.

There are any passes, restarts and crashes.
"""

from random import Random

import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log_service.records.compression import Codec
from log_service.records.control import ControlType
from log_service.storage.cleaner.selection import look_at
from log_service.storage.segment_indexes import SegmentIndexes
from tests.unit.storage.cleaner.context import (
    CompactedLog,
    Model,
    ModelBatch,
    ModelTransaction,
    Pair,
)

KEYS = [b"a", b"b", b"c", b"a long key " * 9, None]
CODECS = st.sampled_from([Codec.NONE, Codec.LZ4])
SLICES = st.sampled_from([1, 200, 1 << 20])
ENDINGS = [ControlType.COMMIT, ControlType.ABORT]
RECORDS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from([b"value", b"", None])), min_size=1, max_size=6
)


class CompactedLogMachine(RuleBasedStateMachine):
    """A log and the rules, side by side."""

    @initialize(
        segment_bytes=st.sampled_from([900, 3_000, 1 << 20]),
        retention_ms=st.sampled_from([0, 1_000]),
    )
    def begin(self, segment_bytes: int, retention_ms: int) -> None:
        self.log = CompactedLog(
            segment_bytes=segment_bytes, delete_retention_ms=retention_ms, index_interval_bytes=1
        )
        self.model = Model(delete_retention_ms=retention_ms)
        self.rng = Random(3)
        self.sequences: dict[int, int] = {}
        self.open: dict[int, ModelTransaction] = {}

    @rule(
        records=RECORDS,
        codec=st.sampled_from(list(Codec)),
        producer_id=st.sampled_from([-1, -1, 5, 6]),
    )
    def append(self, records: list[Pair], codec: Codec, producer_id: int) -> None:
        base_offset = self.log.log.log_end_offset
        options = {}
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            self.sequences[producer_id] = sequence + len(records)
        self.log.write(*records, codec=codec, **options)
        rows = [(base_offset + index, key, value) for index, (key, value) in enumerate(records)]
        self.model.batches.append(ModelBatch(rows, base_offset + len(records), producer_id))

    @rule(
        records=RECORDS,
        codec=CODECS,
        producer_id=st.sampled_from([7, 8]),
        ending=st.sampled_from([None, *ENDINGS]),
    )
    def append_in_transaction(
        self, records: list[Pair], codec: Codec, producer_id: int, ending: ControlType | None
    ) -> None:
        base_offset, sequence = self.log.log.log_end_offset, self.sequences.get(producer_id, 0)
        self.log.write_in_transaction(producer_id, *records, codec=codec, sequence=sequence)
        self.sequences[producer_id] = sequence + len(records)
        rows = [(base_offset + index, key, value) for index, (key, value) in enumerate(records)]
        transaction = self.open.setdefault(producer_id, ModelTransaction())
        self.model.batches.append(
            ModelBatch(rows, base_offset + len(records), producer_id, transaction)
        )
        if ending is not None:
            self._end(producer_id, ending)

    @precondition(lambda self: self.open)
    @rule(choice=st.integers(0, 1), ending=st.sampled_from(ENDINGS))
    def end_transaction(self, choice: int, ending: ControlType) -> None:
        self._end(sorted(self.open)[choice % len(self.open)], ending)

    def _end(self, producer_id: int, ending: ControlType) -> None:
        self.log.end_transaction(producer_id, ending)
        transaction = self.open.pop(producer_id)
        transaction.marker = ending
        row = self.log.rows()[-1]
        entry = self.log.log.aborted_transactions.ended[-1] if ending is ControlType.ABORT else None
        self.model.batches.append(
            ModelBatch([row], row[0] + 1, producer_id, transaction, entry, is_marker=True)
        )

    @rule()
    def roll(self) -> None:
        self.log.log.roll()

    @rule(by_ms=st.sampled_from([1, 500, 1_000]))
    def wait(self, by_ms: int) -> None:
        self.log.clock.advance(by_ms)

    @rule(
        keys=st.sampled_from([0, 1, 2, 50]),
        slice_bytes=SLICES,
        lag=st.integers(0, 3),
        is_rolled=st.booleans(),
    )
    def clean(self, keys: int, slice_bytes: int, lag: int, *, is_rolled: bool) -> None:
        log = self.log.log
        if is_rolled:
            log.roll()
        high_watermark = max(log.log_end_offset - lag, 0)
        found = look_at(log, self.log.clock.now_ms, high_watermark)
        assert all(
            found.first_uncleanable_offset <= first_offset
            for first_offset in self.log.open_transactions.values()
        )
        if found.cleanable_bytes == 0:
            return
        outcome = self.log.clean(
            map_bytes=keys * 200, slice_bytes=slice_bytes, high_watermark=high_watermark
        )
        assert outcome.end_offset <= min(high_watermark, log.segments.active.base_offset)
        following = [
            segment.base_offset
            for segment in log.segments
            if segment.base_offset >= outcome.end_offset
        ]
        self.model.clean(
            outcome.end_offset, following[0], found.first_uncleanable_offset, self.log.clock.now_ms
        )

    @rule()
    def stop_and_start(self) -> None:
        cleaned_offset = self.log.log.cleaned_offset
        trio.run(self.log.log.close)
        self.log.open(
            is_clean=True, recovery_point=self.log.log.recovery_point, cleaned_offset=cleaned_offset
        )

    @precondition(lambda self: self.log.log.recovery_point == self.log.log.log_end_offset)
    @rule()
    def lose_power_after_a_sync(self) -> None:
        recovery_point, cleaned_offset = self.log.log.recovery_point, self.log.log.cleaned_offset
        self.log.files.crash(self.rng)
        self.log.open(recovery_point=recovery_point, cleaned_offset=cleaned_offset)

    @rule()
    def sync(self) -> None:
        trio.run(self.log.log.sync)

    @invariant()
    def exactly_what_the_rules_leave_is_there(self) -> None:
        if hasattr(self, "log"):
            assert self.log.rows() == self.model.rows()

    @invariant()
    def who_reads_committed_records_sees_those_alone(self) -> None:
        if hasattr(self, "log"):
            assert (
                self.log.committed_rows()
                == self.log.committed_rows(max_bytes=1)
                == self.model.committed_rows()
            )

    @invariant()
    def the_index_names_what_a_batch_is_left_of(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log.aborted_transactions.ended == self.model.entries()

    @invariant()
    def every_producer_goes_on_where_it_was(self) -> None:
        if hasattr(self, "log"):
            for producer_id, sequence in self.sequences.items():
                entry = self.log.log.producer_state.get(producer_id)
                assert entry is not None
                assert entry.last_sequence == sequence - 1

    @invariant()
    def indexes_equal_a_rebuild(self) -> None:
        if hasattr(self, "log"):
            log = self.log.log
            for segment in log.segments:
                rebuilt = SegmentIndexes(log.files, log.directory, segment.base_offset, log.config)
                rebuilt.reset()
                for position, header in segment.headers(0):
                    rebuilt.note(position, header.last_offset, header.max_timestamp)
                assert list(segment.offset_index) == list(rebuilt.offset_index)
                assert (segment.max_timestamp, segment.max_timestamp_offset) == (
                    rebuilt.max_timestamp,
                    rebuilt.max_timestamp_offset,
                )


TestCompactedLog = CompactedLogMachine.TestCase
TestCompactedLog.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
