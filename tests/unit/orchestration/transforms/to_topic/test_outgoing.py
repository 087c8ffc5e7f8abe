"""Rows become records, cut into transactions.

Some declarations of a transform to a topic are refused.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.log_client.protocol import HEADERS
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.quality import quarantine
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.kinds import register, why_no_replay
from orchestration.transforms.to_topic.declarations import TopicTransform, group_of, implied_rules
from orchestration.transforms.to_topic.kind import SendingKind
from orchestration.transforms.to_topic.outgoing import (
    MAX_RECORD_BYTES,
    OUTGOING,
    Part,
    cut,
    in_order,
    not_json,
    not_sendable,
    outgoing_records,
    size_limit,
    tombstones,
    too_large,
)

SOURCE = TopicSpec(name="orders", schema="id BIGINT NOT NULL")
TARGET = TopicSpec(
    name="good_orders", schema="id BIGINT NOT NULL, amount INT, `odd name` STRING NOT NULL"
)

LIMIT = size_limit("out", {}, 1 << 20)


def transform(**changes: Any) -> TopicTransform:
    rules = changes.pop("rules", ())
    table = TopicTable(
        name="good",
        topic=changes.pop("source", SOURCE),
        function=lambda records: records,
        rules=rules,
    )
    return TopicTransform(**{"table": table, "target": TARGET, **changes})


def rows(*places: tuple[int, int], size: int = 68) -> pa.Table:
    columns: list[Any] = list(zip(*places, strict=True)) if places else [[], []]
    count = len(places)
    values = pa.array([b"x" * size] * count, pa.large_binary())
    return pa.table(
        [
            columns[0],
            columns[1],
            pa.nulls(count, pa.large_binary()),
            values,
            pa.nulls(count, OUTGOING.field("headers").type),
            [0] * count,
        ],
        schema=OUTGOING,
    )


def ranges(*bounds: tuple[int, int, int]) -> OffsetRanges:
    return OffsetRanges(
        topic="orders",
        topic_id="S",
        ranges=tuple(
            OffsetRange(partition=number, start=start, end=end) for number, start, end in bounds
        ),
    )


def test_what_fits_is_one_transaction_and_nothing_to_send_is_one_too() -> None:
    both = ranges((0, 5, 9), (1, 0, 4))
    assert cut(rows((0, 5), (1, 2)), both, 200) == [Part(start=0, end=2, ends={0: 9, 1: 4})]
    assert cut(rows(), both, 200) == [Part(start=0, end=0, ends={0: 9, 1: 4})]


def test_a_large_result_is_cut_between_records_of_the_source() -> None:
    both = ranges((0, 5, 9), (1, 0, 4))
    parts = cut(rows((0, 5), (0, 5), (0, 7), (1, 0), (1, 3), (1, 3)), both, 200)
    assert parts == [
        Part(start=0, end=2, ends={0: 7}),
        Part(start=2, end=4, ends={0: 9, 1: 3}),
        Part(start=4, end=6, ends={0: 9, 1: 4}),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=40).map(sorted),
    st.integers(1, 600),
    st.integers(0, 80),
)
def test_parts_hold_each_row_once_with_just_the_offsets_that_are_done(
    places: list[tuple[int, int]], max_bytes: int, size: int
) -> None:
    whole = ranges((0, 0, 10), (1, 0, 10), (2, 0, 10))
    parts = cut(rows(*places, size=size), whole, max_bytes)
    assert [parts[0].start, *(one.end for one in parts)] == [
        0,
        *(one.start for one in parts[1:]),
        len(places),
    ]
    assert parts[-1].ends == whole.ends()
    for part in parts:
        done, left = places[: part.end], places[part.end :]
        assert all(offset < part.ends.get(partition, 0) for partition, offset in done)
        assert all(offset >= part.ends.get(partition, 0) for partition, offset in left)
        assert len({*places[part.start : part.end]}) <= 1 or (part.end - part.start) * (
            32 + size
        ) < max_bytes + 40 * (32 + size)


def test_a_record_of_which_something_too_large_is_made_is_told_once() -> None:
    several = pa.concat_tables(
        [
            rows((0, 5)),
            rows((0, 7), (0, 7), size=MAX_RECORD_BYTES + 1),
            rows((1, 0), size=MAX_RECORD_BYTES),
        ]
    )
    assert [
        (one.partition, one.offset, one.rule, one.reason) for one in too_large(several, LIMIT)
    ] == [
        (
            0,
            7,
            "record_size",
            "a record that is made of it takes 1000001 bytes, more than 1000000, the most that is sent to the topic out",
        )
    ]
    assert too_large(rows(), LIMIT) == ()


def test_the_lowest_limit_of_topic_and_producer_holds() -> None:
    assert (
        size_limit("out", {}, 1 << 20).size_bytes
        == size_limit("out", {"max.message.bytes": "9000000"}, 1 << 20).size_bytes
    )
    assert size_limit("out", {"max.message.bytes": "5000"}, 1 << 20).size_bytes == 5_000
    assert size_limit("out", {"max.message.bytes": "5000"}, 4_000).size_bytes == 4_000


def test_tombstones_go_between_the_rows_by_place() -> None:
    source = pa.table(
        {
            "_partition": pa.array([0], pa.int32()),
            "_offset": pa.array([6], pa.int64()),
            "_timestamp": pa.array(
                [datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC")
            ),
            "key": pa.array([b"k"]),
            "value": pa.array([None], pa.binary()),
            "headers": pa.array([[{"key": "trace", "value": b"1"}]], HEADERS),
        }
    )
    both = in_order(rows((0, 5), (0, 7), size=1), tombstones(source))
    assert [
        (one.key, one.value, one.headers, one.timestamp_ms) for one in outgoing_records(both)
    ] == [
        (None, b"x", (), 0),
        (b"k", None, (("trace", b"1"),), 1_767_225_600_000),
        (None, b"x", (), 0),
    ]


def with_headers(
    table: pa.Table, *headers: Sequence[tuple[str | None, bytes | None]] | None
) -> pa.Table:
    made = [
        None if one is None else [{"key": key, "value": value} for key, value in one]
        for one in headers
    ]
    return table.set_column(4, OUTGOING.field("headers"), pa.array(made, HEADERS))


def test_headers_are_pairs_in_their_order_and_a_key_may_come_again() -> None:
    table = with_headers(
        rows((0, 1), (0, 2), (0, 3)), [("a", b"1"), ("b", None), ("a", b"2")], [], None
    )
    assert [one.headers for one in outgoing_records(table)] == [
        (("a", b"1"), ("b", None), ("a", b"2")),
        (),
        (),
    ]


def test_a_header_without_name_and_headers_that_are_too_large_are_told() -> None:
    places = ((0, 1), (0, 2), (0, 2), (0, 3), (0, 4))
    large = [("a", b"x" * 600_000), ("b", b"x" * 400_000)]
    table = with_headers(
        rows(*places), None, [("a", b"1")], [("a", b"1"), (None, b"2"), (None, None)], [], large
    )
    assert [
        (one.partition, one.offset, one.rule, one.reason)
        for one in not_sendable(pa.table({"n": range(5)}), table, LIMIT)
    ] == [
        (0, 2, "header_name", "a header of a record that is made of it has no name"),
        (
            0,
            4,
            "record_size",
            "a record that is made of it takes 1000096 bytes, more than 1000000, the most that is sent to the topic out",
        ),
    ]


def test_values_that_json_has_no_form_for_are_told() -> None:
    """Spark writes NaN as the text "NaN", which is no DOUBLE to a table that reads the topic."""
    nan, infinite = float("nan"), float("inf")
    far = pa.array([0, 0, 0, 0, 0, 2**60, 0], pa.timestamp("us", tz="UTC"))
    result = pa.table(
        {
            "_timestamp": pa.array([2**60] * 7, pa.timestamp("us", tz="UTC")),
            "a": [1.0, nan, 1.0, 1.0, None, 1.0, 1.0],
            "b": pa.array(
                [[1.0], None, [-infinite], [], [1.0], [1.0], [1.0]], pa.list_(pa.float32())
            ),
            "c": pa.array(
                [[("k", {"d": 1.0})], None, [], [("k", {"d": nan})], [], [], []],
                pa.map_(pa.string(), pa.struct([("d", pa.float64())])),
            ),
            "at": far,
        }
    )
    table = rows(*((0, number) for number in range(7)))
    no_number = "is NaN or infinite, which JSON has no number for"
    assert [
        (
            one.offset,
            one.rule,
            one.reason.removeprefix("of a record that is made of it the column "),
        )
        for one in not_json(result, table)
    ] == [
        (1, "json_value", f"a {no_number}"),
        (2, "json_value", f"b {no_number}"),
        (3, "json_value", f"c {no_number}"),
        (5, "json_value", "at is a time beyond the years 1 to 9999"),
    ]
    assert [one.offset for one in not_json(result.slice(3), table.slice(3))] == [3, 5]
    assert not_json(result.append_column("_value", pa.array(["x"] * 7)), table) == ()
    assert (
        not_json(
            result.slice(1, 1),
            table.slice(1, 1).set_column(3, "value", pa.nulls(1, pa.large_binary())),
        )
        == ()
    )


def test_key_and_schema_imply_rules_unless_they_are_declared() -> None:
    found = implied_rules(transform(key="amount", deleted_when="amount = 0"))
    assert [(rule.name, rule.condition) for rule in found] == [
        ("has_id", "coalesce(amount = 0, FALSE) OR `id` IS NOT NULL"),
        ("has_odd_name", "coalesce(amount = 0, FALSE) OR `odd name` IS NOT NULL"),
        ("has_amount", "`amount` IS NOT NULL"),
    ]
    declared = implied_rules(transform(rules=(quarantine("has_id", "id > 0"),)))
    assert [rule.name for rule in declared] == ["has_odd_name"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"target": SOURCE}, "would read its own records for ever"),
        ({"key": "_offset"}, "cannot be the key of good"),
        ({"key": " "}, "cannot be the key of good"),
        ({"deleted_when": " "}, "has no condition"),
        (
            {"source": TopicSpec(name="raw"), "is_forwarding_tombstones": True},
            "a row whose _value is null is a tombstone",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_declared(
    changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        transform(**changes)


def test_groups_of_deployments_differ_and_are_none_of_a_table() -> None:
    assert (group_of("good", None), group_of("good", "blue")) == (
        "tidelog-topic.good",
        "tidelog-topic.blue.good",
    )


def test_why_there_is_no_replay_is_said_of_transforms_to_topics_alone() -> None:
    register(SendingKind(transform()))
    assert "a topic takes nothing back" in str(why_no_replay("good"))
    assert why_no_replay("clean_orders") is None
    assert why_no_replay("good", is_of_dead_letters=True) is None
    assert "only what was rejected" in str(why_no_replay("good", is_everything=True))
