"""Chunks of a topic: a stream that joins, leaves and falls behind gets each record once."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from log_service.http.rest_proxy.v1.chunks import MAX_AHEAD, MAX_CHUNKS, Chunk, Window
from log_service.http.rest_proxy.v1.endings import DELETED, Ending
from log_service.http.rest_proxy.v1.lines import EventLines, NdjsonLines
from log_service.http.rest_proxy.v1.shared_readers import (
    CHUNK_BYTES,
    Followed,
    ReaderCursor,
    SharedReader,
)
from tests.integration.http.event_reader import events_of


def chunk_of(before: Mapping[int, int], *places: tuple[int, int], skipped: int = 0) -> Chunk:
    """Return a chunk with records at these places, and offsets of partition 0 without one."""
    after = {**before, **{partition: offset + 1 for partition, offset in places}}
    after[0] += skipped
    lines = [(partition, offset, b"%d:%d" % (partition, offset)) for partition, offset in places]
    return Chunk(before, after, lines)


def append(window: Window, zero: int, one: int) -> None:
    """Append so many offsets of two partitions. Some of partition 0 have no record."""
    end, after = window.end, {0: window.end[0] + zero, 1: window.end.get(1, 0) + one}
    places = [
        (partition, offset)
        for partition, last in after.items()
        for offset in range(end.get(partition, 0), last)
        if has_record(partition, offset)
    ]
    made = chunk_of(end, *places)
    window.append(Chunk(end, after, made.records))


def has_record(partition: int, offset: int) -> bool:
    """Return whether there is a record, and no marker of a transaction or an aborted record."""
    return partition == 1 or offset % 4 != 3


class Reader:
    """A stream of the test. It takes chunks and notes the records."""

    def __init__(self, positions: dict[int, int]) -> None:
        self.positions = positions
        self.first = dict(positions)
        self.window = Window(positions)
        self.number = 0
        self.seen: list[tuple[int, int]] = []

    def join(self, window: Window) -> None:
        """Go on at a window if that is possible."""
        number = window.join(self.positions)
        if number is not None:
            self.window, self.number = window, number

    def take(self) -> bool:
        """Take the next chunk if it is there, as one piece where that is possible."""
        chunk = self.window.get(self.number)
        if chunk is None:
            return False
        self.number += 1
        if self.positions == chunk.before:
            text = chunk.text(NdjsonLines()).decode()
            found = [tuple(map(int, line.split(":"))) for line in text.splitlines()]
        else:
            found = [record[:2] for record in chunk.records_from(self.positions)]
        self.seen += [(each[0], each[1]) for each in found]
        self.positions = chunk.moved(self.positions)
        return True


ACTIONS = st.sampled_from(["rest", "take", "take", "take", "join", "join"])
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),  # the window
        st.tuples(st.integers(0, 4), st.integers(0, 2)),  # offsets that it gets
        st.sampled_from([0, 600, 10_000]),  # the bytes that it keeps
        st.tuples(ACTIONS, ACTIONS, ACTIONS),  # of each stream
    ),
    max_size=40,
)
STARTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=3, max_size=3)


@given(STEPS, STARTS)
def test_any_way_through_windows_yields_each_record_once(
    steps: list[tuple[int, tuple[int, int], int, tuple[str, ...]]], starts: list[tuple[int, int]]
) -> None:
    """Two windows of one topic begin at different positions and are filled at different times."""
    windows = [Window({0: 0, 1: 0}), Window({0: 5, 1: 3})]
    streams = [Reader(dict(enumerate(start))) for start in starts]
    for which, counts, max_bytes, actions in steps:
        append(windows[which], *counts)
        windows[which].trim(max_bytes)
        for stream, action in zip(streams, actions, strict=True):
            if action == "take":
                stream.take()
            elif action == "join":
                stream.join(windows[which])
    for stream in streams:
        for window in windows:
            stream.join(window)
            while stream.take():
                pass
        for partition in (0, 1):
            passed = range(stream.first[partition], stream.positions[partition])
            wanted = [(partition, each) for each in passed if has_record(partition, each)]
            assert [each for each in stream.seen if each[0] == partition] == wanted


def test_a_stream_joins_where_its_positions_are_in_the_window() -> None:
    window = Window({0: 10})
    window.append(chunk_of({0: 10}, (0, 10), (0, 11)))
    window.append(chunk_of({0: 12}, (0, 12)))
    found = [window.join({0: offset}) for offset in (9, 10, 11, 12, 13, 14)]
    assert found == [None, 0, 0, 1, 2, 2]
    window.trim(0)
    assert [window.join({0: offset}) for offset in (11, 12)] == [None, 1]
    assert window.get(0) is None


def test_a_stream_waits_for_no_window_that_is_far_behind() -> None:
    window = Window({0: 10, 1: 10})
    assert window.join({0: 10 + MAX_AHEAD, 1: 5}) is None
    assert window.join({0: 10 + MAX_AHEAD, 1: 10}) == 0
    assert window.join({0: 10 + MAX_AHEAD, 1: 11}) is None


def test_a_new_partition_begins_at_its_first_record() -> None:
    """A stream that does not know it joins where the window has its first record, too."""
    window = Window({0: 4})
    window.append(Chunk(window.end, {0: 4, 1: 0}, ()))
    append(window, 1, 2)
    stream = Reader({0: 4})
    stream.join(window)
    stream.take()
    stream.take()
    assert stream.seen == [(0, 4), (1, 0), (1, 1)]
    assert stream.positions == {0: 5, 1: 2}
    assert window.join({0: 4, 1: 0, 2: 0}) is None, "it does not have partition 2 yet"
    window.trim(0)
    append(window, 0, 1)
    window.trim(0)
    assert window.join({0: 5}) is None, "records of partition 1 are gone"


def test_the_text_of_a_chunk_is_that_of_its_records() -> None:
    before = {0: 3, 1: 7}
    chunk = chunk_of(before, (1, 7), (0, 3), (0, 5), skipped=2)
    events = list(events_of([chunk.text(EventLines())]))
    assert [(each.data, each.last_id) for each in events] == [
        ("1:7", "0:3,1:8"),
        ("0:3", "0:4,1:8"),
        ("0:5", "0:6,1:8"),
    ]
    assert chunk.after == {0: 8, 1: 8}
    assert chunk.text(NdjsonLines()) == b"1:7\n0:3\n0:5\n"


def test_a_window_counts_the_texts_that_were_made() -> None:
    window = Window({0: 0})
    for _ in range(4):
        append(window, 1, 0)
    size_bytes = 0
    for number in range(4):
        chunk = window.get(number)
        assert chunk is not None
        chunk.text(EventLines())
        size_bytes += chunk.size_bytes
    window.trim(size_bytes)
    assert window.first_number == 0
    window.trim(size_bytes - 1)
    assert window.first_number == 1


def test_a_window_keeps_few_chunks_of_a_topic_with_few_records() -> None:
    window = Window({0: 0})
    for _ in range(MAX_CHUNKS + 3):
        append(window, 1, 0)
    window.trim(1 << 30)
    assert (window.first_number, window.next_number) == (3, MAX_CHUNKS + 3)


@pytest.mark.parametrize("ending", [None, DELETED])
def test_a_reader_that_ends_its_streams_keeps_its_newest_chunks(ending: Ending | None) -> None:
    """A slow stream got records for hours after its login had lost the right to them."""
    followed = Followed(
        credentials=None,
        topic="t",
        topic_id=None,
        partitions=(),
        comparisons=(),
        encoding="auto",
        is_committed_only=True,
    )
    readers: Any = SimpleNamespace(remove=lambda _reader: None)

    async def run() -> SharedReader:
        return SharedReader(readers, followed, {0: 0})

    reader = trio.run(run)
    line = b"x" * CHUNK_BYTES
    for offset in range(10):
        made = Chunk(before={0: offset}, after={0: offset + 1}, records=[(0, offset, line)])
        reader.window.append(made)
    reader.end(ending)
    kept = [number for number in range(10) if reader.window.get(number) is not None]
    assert kept == (list(range(10)) if ending is None else [9])
    assert ReaderCursor(reader, 0).is_over
