"""Java's .properties syntax, as Kafka's own files use it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ConfigError
from log_service.config.properties import RepeatedKey, parse_properties, repeated_keys


def test_keys_end_at_equals_colon_or_blank() -> None:
    assert parse_properties("a=1\nb:2\nc 3\nd = 4\ne\t:  5\n") == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "4",
        "e": "5",
    }


def test_comments_and_blank_lines_say_nothing() -> None:
    assert parse_properties("# a=1\n! b=2\n\n   \n   # c=3\nd=4") == {"d": "4"}


def test_only_the_first_separator_counts() -> None:
    assert parse_properties("listeners=PLAINTEXT://:9092,B://h:1") == {
        "listeners": "PLAINTEXT://:9092,B://h:1"
    }


def test_a_value_keeps_blanks_at_its_end_and_may_hold_a_hash() -> None:
    assert parse_properties("a = x # y  ") == {"a": "x # y  "}


def test_a_line_goes_on_after_an_odd_number_of_backslashes() -> None:
    assert parse_properties("a=1,\\\n   2,\\\n\t3\nb=4") == {"a": "1,2,3", "b": "4"}
    assert parse_properties("a=1\\\\\nb=2") == {"a": "1\\", "b": "2"}


def test_a_comment_inside_a_continuation_is_part_of_the_value() -> None:
    assert parse_properties("a=1\\\n# 2") == {"a": "1# 2"}


def test_a_continuation_at_the_end_of_the_file_ends_there() -> None:
    assert parse_properties("a=1\\") == {"a": "1"}


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("\\\r\n\t\nkey=1", {"key": "1"}),
        ("\f\\\r\n\t!no key\nkey\t1", {"key": "1"}),
        (" \\\n  #no key\nkey:1", {"key": "1"}),
        ("\\\n  key = 1", {"key": "1"}),
    ],
)
def test_a_line_that_holds_only_its_continuation_is_no_beginning(
    text: str, properties: dict[str, str]
) -> None:
    """As java.util.Properties reads it: comments and blank lines behind it are what they are
    elsewhere.
    """
    assert parse_properties(text) == properties


def test_escapes_stand_for_one_character() -> None:
    assert parse_properties(r"a=\t\n\r\f\q\\ \u00e9") == {"a": "\t\n\r\fq\\ é"}
    assert parse_properties(r"a\ b\=c=d") == {"a b=c": "d"}


def test_a_broken_unicode_escape_names_its_line() -> None:
    with pytest.raises(ConfigError, match=r"line 2: .*four hexadecimal digits"):
        parse_properties("a=1\nb=\\u12\n")


def test_windows_line_ends_are_line_ends() -> None:
    assert parse_properties("a=1\r\nb=2\rc=3") == {"a": "1", "b": "2", "c": "3"}


def test_the_last_of_two_equal_keys_wins() -> None:
    assert parse_properties("a=1\na=2") == {"a": "2"}


def test_repeated_keys_have_the_numbers_of_their_lines() -> None:
    repeated = repeated_keys("a=1\nb=2,\\\n  3\n# a=4\n\na : 5\nc=6\nb=7\n\\u0061=8")
    assert repeated == (
        RepeatedKey(name="a", line_numbers=(1, 6, 9)),
        RepeatedKey(name="b", line_numbers=(2, 8)),
    )
    assert repeated[0].text == "a is on line 1 and 6, and again on line 9, whose value holds"


def test_a_key_alone_has_an_empty_value() -> None:
    assert parse_properties("a\nb=") == {"a": "", "b": ""}


@given(st.text())
def test_any_text_is_parsed_or_refused_as_configuration(text: str) -> None:
    with suppress(ConfigError):
        assert all(isinstance(value, str) for value in parse_properties(text).values())
