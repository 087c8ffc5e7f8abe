"""A share fetch's bytes give the acquired records, for any batches and ranges.

Acknowledgements are put into batches.
"""

import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.client.share.acknowledgements import Acknowledgement, Ticket, batches_of, merged
from log_service.client.share.acquired import MAX_ACQUIRED, AcquiredReader
from log_service.client.share.in_hand import InHand
from log_service.client.share.membership import new_member_id
from log_service.client.share.records import AcknowledgeType, ShareDeserializationError, ShareRecord
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.common.types import TopicPartition
from log_service.records.batch import ATTRIBUTES_POSITION, CONTROL_FLAG, CorruptBatch
from log_service.records.builder import build_batch
from tests.sim import World, sim_run

WHERE = TopicPartition("t", 0)
KINDS = st.sampled_from([0, 1, 2, 3, 4])


def is_bad(value: bytes) -> bytes:
    if value == b"bad":
        raise ValueError(value)
    return value


@given(
    batches=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.lists(st.sampled_from([b"good", b"bad"]), min_size=1, max_size=5),
            st.booleans(),
        ),
        max_size=6,
    ),
    pieces=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6), st.integers(1, 5)), max_size=8),
    portions=st.lists(st.integers(1, 4), max_size=20),
)
def test_each_acquired_offset_comes_out_once(
    batches: list[tuple[int, list[bytes], bool]],
    pieces: list[tuple[int, int, int]],
    portions: list[int],
) -> None:
    written, at = bytearray(), 0
    held: dict[int, tuple[bytes, bool]] = {}
    for hole, values, is_damaged in batches:
        batch = bytearray(
            build_batch(
                [(0, None, value) for value in values], base_offset=at + hole, leader_epoch=0
            )
        )
        batch[-1] ^= is_damaged
        held |= {at + hole + index: (value, is_damaged) for index, value in enumerate(values)}
        written += batch
        at += hole + len(values)
    ranges, start = [], 0
    for hole, size, count in pieces:
        ranges.append((start + hole, start + hole + size - 1, count))
        start += hole + size
    counts = {offset: count for first, last, count in ranges for offset in range(first, last + 1)}
    reader = AcquiredReader(
        WHERE, bytes(written), ranges, check_crcs=True, deserializers=(None, is_bad)
    )
    taken: list[ShareRecord] = []
    failed: list[ShareRecord] = []
    is_empty = False
    for portion in portions:
        before_count = len(taken)
        try:
            is_empty = reader.read_into(taken, before_count + portion)
        except ShareDeserializationError as error:
            assert len(taken) == before_count
            failed.append(error.record)
        except CorruptBatch:
            assert len(taken) == before_count
        assert len(taken) <= before_count + portion
    left = reader.give_up()
    assert not (is_empty and left)
    offsets = [record.offset for record in taken + failed]
    assert sorted([*offsets, *reader.gaps, *reader.unreadable, *left]) == sorted(counts)
    assert all(one.offset < other.offset for one, other in pairwise(taken))
    assert all(
        held[record.offset] == (record.value, False)
        and record.delivery_count == counts[record.offset]
        for record in taken
    )
    assert all(held[record.offset] == (b"bad", False) for record in failed)
    assert all(offset not in held for offset in reader.gaps)
    # Or a hole behind a damaged batch.
    assert all(held.get(offset, (b"", True))[1] for offset in reader.unreadable)


@pytest.mark.parametrize("claimed", [0, 1, 500])
@pytest.mark.parametrize("flags", [0, CONTROL_FLAG])
def test_no_offset_of_a_damaged_batch_becomes_a_gap(claimed: int, flags: int) -> None:
    """A gap is acknowledged, so that no member ever gets the record, whatever becomes of the bytes."""
    batches = [
        bytearray(build_batch([(0, None, b"v")] * 4, base_offset=base)) for base in (0, 4, 8)
    ]
    struct.pack_into(">hi", batches[1], ATTRIBUTES_POSITION, flags, claimed)
    reader = AcquiredReader(
        WHERE, b"".join(batches), [(2, 11, 1)], check_crcs=True, deserializers=(None, None)
    )
    taken: list[ShareRecord] = []
    for _ in range(3):
        with suppress(CorruptBatch):
            reader.read_into(taken, 100)
    assert [record.offset for record in taken] == [2, 3, 8, 9, 10, 11]
    assert (reader.unreadable, reader.gaps) == ([4, 5, 6, 7], [])


@pytest.mark.parametrize(
    "ranges", [[(5, 4, 1)], [(0, 3, 1), (3, 4, 1)], [(0, MAX_ACQUIRED, 1)], [(-1, 0, 1)]], ids=str
)
def test_ranges_that_no_broker_acquires_are_refused(ranges: list[tuple[int, int, int]]) -> None:
    with pytest.raises(ProtocolError):
        AcquiredReader(WHERE, b"", ranges, check_crcs=True, deserializers=(None, None))


@given(st.dictionaries(st.integers(0, 40), KINDS))
def test_batches_say_of_each_offset_what_was_said(types: dict[int, int]) -> None:
    batches = batches_of(types)
    said: dict[int, int] = {}
    for first, last, kinds in batches:
        assert len(kinds) in {1, last - first + 1}
        said |= {
            offset: kinds[0] if len(kinds) == 1 else kinds[offset - first]
            for offset in range(first, last + 1)
        }
    assert said == types
    # As few as there can be, in order.
    assert all(one.last_offset + 1 < other.first_offset for one, other in pairwise(batches))


def test_of_what_is_said_twice_the_later_counts() -> None:
    acknowledgements = [
        Acknowledgement(
            topic_partition=WHERE, types=types, deadline_ms=0, on_settled=lambda *_: None
        )
        for types in ({3: 4, 4: 1}, {3: 1})
    ]
    assert merged(acknowledgements) == {WHERE: [(3, 4, [1])]}


def test_a_ticket_ends_with_the_last_of_its_parts() -> None:
    ends: list[str] = []
    ticket = Ticket(lambda: ends.append("all"))
    ticket.add(WHERE)
    ticket.add(WHERE)
    ticket.settle(WHERE, KafkaError(ErrorCode.INVALID_RECORD_STATE))
    assert ends == []
    ticket.settle(WHERE, None)
    assert ends == ["all"]
    assert ticket.errors[WHERE].code is ErrorCode.INVALID_RECORD_STATE


def record(offset: int, delivery_count: int = 1) -> ShareRecord:
    return ShareRecord("t", 0, offset, 0, "CreateTime", None, b"", (), 0, delivery_count)


def test_a_newer_delivery_replaces_the_one_in_hand() -> None:
    hand: InHand[str] = InHand()
    hand.hand_out([record(0)], "old session", 10)
    hand.hand_out([record(0, 2)], "new session", 20)
    with pytest.raises(KafkaError, match="delivery 1, is not in hand"):
        hand.acknowledge(record(0), AcknowledgeType.ACCEPT)
    assert hand.drop_expired(15) == []
    hand.acknowledge(record(0, 2), AcknowledgeType.ACCEPT)
    assert hand.take_acknowledged() == [("new session", {WHERE: {0: 1}})]
    assert len(hand) == 0


def test_a_member_id_is_one_that_brokers_read() -> None:
    async def main(world: World) -> None:
        ids = {new_member_id(world.client_env().rng) for _ in range(200)}
        assert len(ids) == 200
        assert all(len(text) == 22 and not text.startswith("-") for text in ids)

    sim_run(1, main)
