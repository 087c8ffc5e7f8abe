"""A log against a list: whatever is appended, cut, closed, crashed and read, both tell the same."""

from random import Random

import hypothesis.strategies as st
import trio
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log_service.records.batch import iterate_headers, iterate_records
from log_service.storage.log import Log
from tests.unit.storage.context import NOW_MS, LogContext, batch, idempotent


class LogModel(RuleBasedStateMachine):
    """The model: values by offset from ``start``, batch boundaries, what was synced."""

    @initialize(
        segment_bytes=st.sampled_from([400, 1_000, 10_000]),
        interval=st.sampled_from([1, 200, 4_096]),
    )
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.context = LogContext(
            segment_bytes=segment_bytes, index_interval_bytes=interval, retention_ms=1_000
        )
        self.values: dict[int, bytes] = {}
        self.batch_starts: list[int] = []
        self.timestamps: dict[int, int] = {}
        self.start = self.end = 0
        self.synced = 0
        self.sequence = 0
        self.epoch = 0
        self.clock_ms = NOW_MS

    @property
    def log(self) -> Log:
        return self.context.log

    def _remember(self, count: int, value: bytes, timestamp: int) -> None:
        self.batch_starts.append(self.end)
        for index in range(count):
            self.values[self.end + index] = value
            self.timestamps[self.end + index] = timestamp + index
        self.end += count

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 60),
        drift=st.integers(-50, 200),
        has_new_epoch=st.booleans(),
    )
    def append(self, count: int, size: int, drift: int, has_new_epoch: bool) -> None:
        self.epoch += has_new_epoch
        self.clock_ms += drift
        value = b"%d " % self.end + b"v" * size
        result = self.context.append(
            batch(count, value=value, timestamp=self.clock_ms), leader_epoch=self.epoch
        )
        assert (result.base_offset, result.last_offset) == (self.end, self.end + count - 1)
        self._remember(count, value, self.clock_ms)

    @rule()
    def append_with_sequence_and_again(self) -> None:
        content = idempotent(9, self.sequence, value=b"%d" % self.end, timestamp=self.clock_ms)
        first = self.context.append(bytes(content), leader_epoch=self.epoch)
        assert (
            self.context.append(bytes(content), leader_epoch=self.epoch).base_offset
            == first.base_offset
            == self.end
        )
        self._remember(1, b"%d" % self.end, self.clock_ms)
        self.sequence += 1

    @rule()
    def sync(self) -> None:
        self.synced = trio.run(self.log.sync)
        assert self.synced == self.end

    @rule()
    def sync_rolled(self) -> None:
        self.synced = trio.run(self.log.sync_rolled)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def unload(self) -> None:
        self.log.unload_idle()
        self.log.unload_idle()
        assert self.context.files.open_count == 0

    @precondition(lambda self: self.end > self.start)
    @rule(fraction=st.floats(0, 1))
    def advance_log_start_offset(self, fraction: float) -> None:
        self.start = self.start + round((self.end - self.start) * fraction)
        self.log.advance_log_start_offset(self.start)

    @rule(age_ms=st.integers(0, 2_000))
    def retain(self, age_ms: int) -> None:
        self.log.apply_retention(self.clock_ms + age_ms, self.end)
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        kept = [offset for offset in self.batch_starts if offset >= self.start]
        if not kept:
            return
        offset = data.draw(st.sampled_from(kept))
        self.log.truncate_to(offset)
        self._forget_from(offset)
        self.synced = min(self.synced, offset)

    def _forget_from(self, offset: int) -> None:
        for gone in range(offset, self.end):
            del self.values[gone], self.timestamps[gone]
        self.batch_starts = [start for start in self.batch_starts if start < offset]
        self.end = offset
        self.epoch = max(self.log.latest_leader_epoch, 0)
        producer = self.log.producer_state.get(9)
        self.sequence = producer.last_sequence + 1 if producer else 0

    @rule()
    def stop_and_start(self) -> None:
        self.context.reopen_clean()
        self.synced = self.end

    @rule(seed=st.integers(0, 1_000))
    def crash(self, seed: int) -> None:
        known = {
            "recovery_point": self.log.recovery_point,
            "log_start_offset": self.log.log_start_offset,
        }
        self.context.files.crash(Random(seed))
        self.context.open(**known)
        assert self.log.log_end_offset >= max(self.synced, self.start)
        assert self.log.log_end_offset == self.start or self.log.log_end_offset - 1 in self.values
        self._forget_from(self.log.log_end_offset)

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data(), max_bytes=st.integers(0, 3_000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.start, self.end - 1))
        upper_offset = data.draw(
            st.sampled_from([*(start for start in self.batch_starts if start > offset), self.end])
        )
        content = self.context.read(offset, max_bytes=max_bytes, upper_offset=upper_offset)
        headers = list(iterate_headers(content, is_torn_tail_ok=True))
        assert headers, "a whole batch at least"
        assert headers[0][1].base_offset <= offset <= headers[0][1].last_offset
        assert len(content) <= max(max_bytes, headers[0][1].size_bytes)
        for position, header in headers:
            assert header.last_offset < upper_offset
            for record in iterate_records(content, position):
                assert record.value == self.values[record.offset]

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def find_by_time(self, data: st.DataObject) -> None:
        held = range(self.start, self.end)
        timestamp = data.draw(
            st.sampled_from([self.timestamps[offset] for offset in held])
        ) + data.draw(st.integers(-1, 1))
        found = self.log.offset_for_timestamp(timestamp)
        expected = next((offset for offset in held if self.timestamps[offset] >= timestamp), None)
        assert (None if found is None else found.offset) == expected

    @invariant()
    def bounds_are_the_same(self) -> None:
        if hasattr(self, "values"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            assert self.log.recovery_point <= self.end
            assert self.synced <= self.log.recovery_point or self.start == self.end

    @invariant()
    def loaders_read_everything(self) -> None:
        if hasattr(self, "values"):
            held = {offset: value for offset, value in self.values.items() if offset >= self.start}
            assert {
                offset: value
                for offset, value in self.context.all_values(self.start)
                if offset >= self.start
            } == held


LogModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLogModel = LogModel.TestCase
