"""Records as lines, and lines as records."""

import json

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.cli.consume import FORMAT_HELP
from log_service.cli.record_lines import (
    FIELDS_OF_QUEUES,
    LineError,
    NewRecord,
    as_json_line,
    parser,
    renderer,
)
from log_service.client.consumer.records import ConsumerRecord
from log_service.client.share.records import ShareRecord

Headers = tuple[tuple[str, bytes | None], ...]


def record(
    value: bytes | None = b"value",
    key: bytes | None = b"key",
    headers: tuple[tuple[str, bytes | None], ...] = (),
    timestamp_ms: int = 1_500,
) -> ConsumerRecord:
    return ConsumerRecord("orders", 2, 41, timestamp_ms, "CreateTime", key, value, headers, 0)


def printed(
    what: ConsumerRecord,
    *,
    as_json: bool = False,
    template: str | None = None,
    key_separator: str | None = None,
) -> bytes:
    return renderer(as_json=as_json, template=template, key_separator=key_separator)(what)


def parsed(
    line: bytes,
    *,
    as_json: bool = False,
    key_separator: str | None = None,
    is_empty_null: bool = False,
) -> NewRecord:
    return parser(as_json=as_json, key_separator=key_separator, is_empty_null=is_empty_null)(line)


def test_a_value_is_printed_as_it_is() -> None:
    assert printed(record(b"\x00\xff raw")) == b"\x00\xff raw\n"
    assert printed(record(None)) == b"null\n"


def test_a_key_separator_stands_between_key_and_value() -> None:
    assert printed(record(), key_separator=" -> ") == b"key -> value\n"
    assert printed(record(key=None), key_separator=":") == b"null:value\n"


def test_a_template_is_filled_and_its_escapes_are_read() -> None:
    headers = (("a", b"1"), ("b", None))
    template = (
        r"{topic}\t{partition}\t{offset}\t{timestamp}\t{timestamp_ms}\t{key}\t{value}\t{headers}\n"
    )
    expected = b"orders\t2\t41\t1970-01-01T00:00:01.500Z\t1500\tkey\tvalue\ta=1,b=null\n"
    assert printed(record(headers=headers), template=template) == expected


def test_a_template_may_be_kcat_s() -> None:
    render = renderer(
        as_json=False, template=r"%t/%p@%o %T %k=%s (%K, %S) 100%% 5% %x\n", key_separator=None
    )
    made = record(key=None, value=b"abc")
    expected = f"{made.topic}/{made.partition}@{made.offset} {made.timestamp_ms} null=abc (-1, 3) 100% 5% %x\n"
    assert render(made) == expected.encode()


def test_nulls_and_a_key_for_all_are_read() -> None:
    parse = parser(as_json=False, key_separator=":", is_empty_null=False, null_text="NULL")
    assert (parse(b"a:NULL").key, parse(b"a:NULL").value) == (b"a", None)
    assert (parse(b"NULL:b").key, parse(b":").value) == (None, b"")
    keyed = parser(as_json=False, key_separator=None, is_empty_null=False, fixed_key="k")
    assert keyed(b"NULL").key == b"k"
    assert keyed(b"NULL").value == b"NULL"


def test_a_template_ends_where_it_ends() -> None:
    assert printed(record(), template="{value}") == b"value"
    assert printed(record(), template=r"\{value\}") == b"{value}"
    assert printed(record(), template="100% {} {value}") == b"100% {} value"


def test_a_template_does_not_look_into_values() -> None:
    assert printed(record(b"{key}"), template="{value}") == b"{key}"


def test_an_unknown_placeholder_is_refused_with_those_that_exist() -> None:
    with pytest.raises(click.BadParameter, match=r"no \{colour\}.*\{offset\}"):
        renderer(as_json=False, template="{colour}", key_separator=None)


def test_a_time_that_no_calendar_knows_is_a_dash() -> None:
    assert printed(record(timestamp_ms=2**62), template="{timestamp}") == b"-"


def test_json_tells_everything() -> None:
    told = json.loads(printed(record(b"\xff\x00", None, (("a", b"1"), ("a", None))), as_json=True))
    assert told == {
        "topic": "orders",
        "partition": 2,
        "offset": 41,
        "timestamp_ms": 1_500,
        "timestamp_type": "CreateTime",
        "key": None,
        "value": {"base64": "/wA="},
        "headers": [["a", "1"], ["a", None]],
    }


@given(
    value=st.none() | st.binary(max_size=40),
    key=st.none() | st.binary(max_size=40),
    headers=st.lists(
        st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3
    ).map(tuple),
    timestamp_ms=st.integers(0, 2**53),
)
def test_what_is_printed_as_json_is_read_back(
    value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int
) -> None:
    line = printed(record(value, key, headers, timestamp_ms), as_json=True)
    assert line.count(b"\n") == 1
    assert parsed(line, as_json=True) == NewRecord(
        value=value, key=key, headers=headers, timestamp_ms=timestamp_ms
    )


def test_a_record_without_a_time_is_read_back_without_one() -> None:
    line = printed(record(timestamp_ms=-1), as_json=True)
    assert parsed(line, as_json=True).timestamp_ms is None


def test_a_line_is_a_value() -> None:
    assert parsed(b"text: more") == NewRecord(value=b"text: more")
    assert parsed(b"") == NewRecord(value=b"")
    assert parsed(b"", is_empty_null=True) == NewRecord(value=None)


def test_a_line_is_split_at_the_first_separator() -> None:
    assert parsed(b"a:b:c", key_separator=":") == NewRecord(key=b"a", value=b"b:c")
    assert parsed(b"a:", key_separator=":", is_empty_null=True) == NewRecord(key=b"a", value=None)
    with pytest.raises(LineError, match="no ':' between key and value"):
        parsed(b"abc", key_separator=":")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1]", 'not an object with a "value"'),
        (b'{"key": "k"}', 'not an object with a "value"'),
        (b'{"value": 7}', "a value that is neither text"),
        (b'{"value": {"base64": "!"}}', "a value that is not base64"),
        (b'{"value": {"base64": "\xc3\xa9"}}', "a value that is not base64"),
        (b'{"value": "\\ud800"}', r"a value with half of a surrogate pair, '\\ud800'"),
        (b'{"value": null, "key": "k\\udfff"}', "a key with half of a surrogate pair"),
        (b'{"value": null, "headers": [["\\ud800", "a"]]}', "half of a surrogate pair"),
        (
            b'{"value": null, "headers": [["a", "\\ud800"]]}',
            "a header 'a' with half of a surrogate pair",
        ),
        (
            b'{"value": null, "timestamp_ms": 9223372036854775808}',
            "timestamp_ms that is not from 0 to",
        ),
        (b'{"value": null, "timestamp_ms": -2}', "timestamp_ms that is not from 0 to"),
        (b'{"value": null, "key": []}', "a key that is neither text"),
        (b'{"value": null, "headers": {"a": "b"}}', "headers that are not pairs"),
        (b'{"value": null, "headers": [["a", 1]]}', "header 'a' that is neither text"),
        (b'{"value": null, "timestamp_ms": "now"}', "timestamp_ms that is not a whole number"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(LineError, match=reason):
        parsed(line, as_json=True)


def test_a_record_of_a_queue_tells_its_delivery() -> None:
    delivered = ShareRecord("t", 0, 7, 0, "CreateTime", None, b"v", (), 0, 3)
    render = renderer(
        as_json=False, template="{value} {delivery_count}", key_separator=None, is_queue=True
    )
    assert render(delivered) == b"v 3"
    assert json.loads(as_json_line(delivered))["delivery_count"] == 3
    with pytest.raises(click.BadParameter, match="delivery_count"):
        renderer(as_json=False, template="{delivery_count}", key_separator=None)


def test_the_help_names_the_fields_that_only_queues_have() -> None:
    assert all(f"{{{name}}}" in FORMAT_HELP for name in FIELDS_OF_QUEUES)
