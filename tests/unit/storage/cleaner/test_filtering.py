"""Single batches are filtered: markers of transactions, other control records, and headers that
stay.

The memory for keys is bounded.
"""

import pytest

from log_service.records.batch import HEADER_SIZE, parse_header
from log_service.records.builder import build_batch
from log_service.records.control import ControlType, build_control_batch
from log_service.storage.cleaner.filtering import BatchFilter, LastWrite
from log_service.storage.cleaner.offset_map import ENTRY_BYTES, OffsetMap
from log_service.storage.cleaner.unreadable import UnreadableBatches
from tests.unit.storage.context import PARTITION

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1_000


def filter_at(
    now_ms: int = NOW_MS,
    *,
    end_offset: int = 1_000,
    last_writes: dict[int, LastWrite] | None = None,
) -> BatchFilter:
    """Return the filter of a pass that knows that key ``old`` has a later record."""
    offsets = OffsetMap(1 << 20)
    assert offsets.add([b"old", b"new"], [500, 501])
    offsets.advance(999)
    return BatchFilter(
        offsets=offsets,
        now_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
        end_offset=end_offset,
        last_writes=last_writes or {},
        on_unreadable=UnreadableBatches(topic_partition=PARTITION).log_skipped,
    )


def marker(
    control_type: ControlType = ControlType.COMMIT, *, producer_id: int = 7, base_offset: int = 10
) -> memoryview:
    content = build_control_batch(
        [(control_type, b"\0\0\0\0\0\0")],
        timestamp_ms=5,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=producer_id >= 0,
    )
    return memoryview(content)


def data(key: bytes = b"old", *, producer_id: int = 7, is_transactional: bool = True) -> memoryview:
    content = build_batch(
        [(5, key, b"v")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )
    return memoryview(content)


def applied(chosen: BatchFilter, batch: memoryview) -> memoryview | None:
    kept = chosen.apply(parse_header(batch), batch)
    return None if kept is None else memoryview(kept)


@pytest.mark.parametrize("control_type", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_stays_while_a_batch_of_its_transaction_is_met(control_type: ControlType) -> None:
    chosen = filter_at()
    assert applied(chosen, data()) is None
    batch = marker(control_type)
    assert applied(chosen, batch) == batch


def test_a_marker_without_a_transaction_gets_a_horizon_and_goes_when_it_has_come() -> None:
    dated = applied(filter_at(), marker())
    assert dated is not None
    assert parse_header(dated).delete_horizon_ms == NOW_MS + RETENTION_MS
    assert applied(filter_at(NOW_MS + RETENTION_MS - 1), dated) == dated
    assert applied(filter_at(NOW_MS + RETENTION_MS), dated) is None


def test_the_next_transaction_of_a_producer_is_not_taken_for_the_last() -> None:
    chosen = filter_at()
    assert applied(chosen, data()) is None
    first, second = marker(), marker(base_offset=20)
    assert applied(chosen, first) == first
    dated = applied(chosen, second)
    assert dated is not None
    assert parse_header(dated).delete_horizon_ms is not None


def test_other_control_records_stay() -> None:
    batch = marker(ControlType.LEADER_CHANGE, producer_id=-1)
    assert applied(filter_at(), batch) == batch


def test_a_control_batch_without_a_key_of_one_stays() -> None:
    content = bytearray(marker())
    content[content.index(b"\0\0\0\1", HEADER_SIZE)] = 0xFF  # its version is negative
    batch = memoryview(content)
    assert applied(filter_at(), batch) == batch


def test_a_marker_that_is_the_last_of_an_active_producer_stays_as_a_header() -> None:
    dated = applied(filter_at(), marker())
    assert dated is not None
    last_writes = {7: LastWrite(producer_epoch=0, last_offset=None)}
    left = applied(filter_at(NOW_MS + RETENTION_MS, last_writes=last_writes), dated)
    assert left is not None
    header = parse_header(left)
    assert (header.record_count, header.is_control, header.is_transactional) == (0, True, True)
    assert applied(filter_at(last_writes=last_writes), left) == left
    assert applied(filter_at(), left) is None


def test_an_unchanged_batch_is_not_copied() -> None:
    batch = data(b"unknown")
    assert filter_at().apply(parse_header(batch), batch) is batch


def test_a_map_counts_each_key_once_and_forgets_all() -> None:
    offsets = OffsetMap(1 << 20)
    assert offsets.add([b"a", b"bb", b"a"], [1, 2, 3])
    assert (len(offsets), offsets.latest_offset) == (2, 3)
    assert 2 * ENTRY_BYTES < offsets.used_bytes <= 2 * ENTRY_BYTES + 4
    assert offsets.superseded([b"a", b"a", b"c"], [1, 3, 4]) == [0]
    offsets.forget()
    assert (len(offsets), offsets.used_bytes, offsets.latest_offset) == (0, 0, -1)


def test_a_full_map_takes_later_offsets_of_keys_that_it_has() -> None:
    offsets = OffsetMap(2 * (ENTRY_BYTES + 1))
    assert not offsets.add([b"a", b"b", b"a", b"c", b"a"], [1, 2, 3, 4, 5])
    assert offsets.latest_offset == 3
    assert offsets.superseded([b"a", b"a", b"b"], [1, 3, 2]) == [0]
