"""Regular expressions of clients take bounded memory.

Long ones that name many topics are matched all the same.
"""

import gc
from random import Random

import pytest
import re2

from log_service.common import regexes
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.regexes import is_match, matching, validate_regex

ALLOWED_BYTES = 40 << 20
LETTERS = "abcdefgh"


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no file of a disk
        return int(file.read().split()[1]) * 4096


def text(rng: Random, length: int) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(length))


def greedy(number: int) -> str:
    """An expression whose states RE2 has to remember one by one, other ones for each number."""
    rng = Random(number)
    return f".*({'|'.join(text(rng, 12) for _ in range(170))}|a.{{12}}|b.{{11}}).*z"


def test_many_expressions_take_bounded_memory() -> None:
    """Sixty of two kilobytes left 189 MB in a broker; 256 were kept."""
    topics = [text(Random(f"topic {number}"), 10_000) for number in range(60)]
    assert not matching("warm.*up", topics)
    gc.collect()
    before = resident_bytes()
    for number in range(60):
        assert not is_match(greedy(number), f"{topics[number]}y")
    assert resident_bytes() - before < ALLOWED_BYTES


def test_an_expression_that_names_twenty_thousand_topics_is_matched() -> None:
    names = [f"orders-{number}-of-shop-{number * 7919 % 10007}" for number in range(20_000)]
    everything = "|".join(names)
    validate_regex(everything)
    assert is_match(everything, names[-1])
    assert not is_match(everything, "orders-of-nobody")
    assert matching("|".join(names[:5_000]), names) == frozenset(names[:5_000])


def test_the_library_keeps_no_expressions_of_its_own() -> None:
    for number in range(3):
        validate_regex(f"own-{number}")
    assert re2._Regexp._make.cache_info().currsize == 0  # a private name: no public one tells


def test_a_large_expression_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"payments-{number}-of-shop-{number * 7919 % 10007}" for number in range(8_000)]
    validate_regex("|".join(names))
    monkeypatch.setattr(regexes, "compile_in_re2", lambda *_: pytest.fail("it was compiled again"))
    assert is_match("|".join(names), names[0])


@pytest.mark.parametrize("regex", ["(", "((a{1,900}){1,900}){1,900}", r"(a)\1"])
def test_what_cannot_be_matched_is_refused(regex: str) -> None:
    with pytest.raises(KafkaError, match="is not valid in RE2's syntax") as refused:
        validate_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    "regex",
    [
        pytest.param(r"\pL" * 300, id="classes of Unicode"),
        pytest.param(r"[^\PN]" * 300, id="classes within classes"),
        pytest.param("a?" * 6_000, id="choices"),
        pytest.param(".{1000}" * 1_500, id="repetitions"),
    ],
)
def test_what_takes_too_long_to_read_is_refused_unread(
    regex: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest string of the protocol full of \\pL held a broker up for three seconds.

    It took 350 MB, and any client may send it.
    """
    monkeypatch.setattr(regexes, "compile_in_re2", lambda *_: pytest.fail("it was read"))
    with pytest.raises(KafkaError, match="a regular expression") as refused:
        validate_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    "regex",
    [
        r"\pL+-\d{4}(-eu|-us)?",
        "|".join(f"orders-{number}-.*" for number in range(3_000)),
        r"\\p" * 500,
    ],
    ids=len,
)
def test_what_applications_write_is_taken(regex: str) -> None:
    validate_regex(regex)
