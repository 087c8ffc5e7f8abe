"""Filters of records: what they match, and what they refuse."""

import pytest

from log_service.http.record_formats.filters import (
    Filterable,
    matches,
    needs_decoding,
    parse_filter,
)
from log_service.http.server.values import HttpError

RECORD = Filterable(
    partition=3,
    offset=42,
    key="Ann",
    value={"id": 7, "customer": {"country": "DE", "tags": ["new", "vip"]}, "note": None},
    headers={"trace": "abc", "a.b": "dotted"},
)


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("", True),
        ("key = Ann", True),
        ("key = ann", False),
        ("key ~ AN", True),
        ("key != Bob", True),
        ("value.id = 7", True),
        ("value.id=8", False),
        ("value.customer.country ~ de and partition = 3", True),
        ("value.customer.country = DE and offset = 41", False),
        ("value.customer.tags.1 = vip", True),
        ("value.customer.tags.9 = vip", False),
        ("value.missing = 1", False),
        ("value.missing != 1", True),
        ("value.note = null", True),
        ('value ~ "vip"', True),
        ('value ~ "no such"', False),
        ("header.trace = abc", True),
        ("header.a.b = dotted", True),
        ("header ~ trace=a", True),
        ("header.none = 1", False),
        ("value !~ vip", False),
        ("partition = 03 and offset ~ 4", True),
        ('key = "Ann" AND value.id = "7"', True),
    ],
)
def test_a_filter_matches(text: str, *, is_match: bool) -> None:
    assert matches(parse_filter(text), RECORD) == is_match


@pytest.mark.parametrize(
    "text",
    ["id = 7", "key", "key =", "key = a or key = b", "key == a b", "and", 'key = "a', "value. = 1",
     "key == ", "key == Ann", "key =~ Ann", "key ~= Ann", "key =! Ann", "partition = x", "offset = -1",
     "offset ~ a", "partition.a = 1", "partition = 3.0", "offset = " + "9" * 30,
     " and ".join(["key = a"] * 11), "key = " + "a" * 1_000, "value" + ".a" * 30 + " = 1"],
)  # fmt: skip
def test_a_filter_that_is_not_clear_is_refused(text: str) -> None:
    with pytest.raises(HttpError) as caught:
        parse_filter(text)
    assert caught.value.status == 400


def test_quotes_hold_any_text() -> None:
    (found,) = parse_filter(r'key = "say \"and\" \\ = ~"')
    assert found.wanted == r'say "and" \ = ~'


def test_headers_need_no_decoding() -> None:
    assert not needs_decoding(parse_filter("header.a = 1 and offset = 2"))
    assert needs_decoding(parse_filter("value ~ a"))
