"""A stream begins at an offset or a time, and a client keeps its position."""

import pytest

from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v1.positions import (
    Gap,
    Start,
    first_positions,
    pairs_text,
    parse_start,
)

LOGS = {0: (10, 20), 1: (0, 5), 2: (0, 0)}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start(kind="earliest")),
        ("latest", Start(kind="latest")),
        ("17", Start(kind="offset", offset=17)),
        ("0:17,1:5", Start(kind="pairs", pairs={0: 17, 1: 5})),
        ("2026-11-30T10:00Z", Start(kind="time", time_ms=1_796_032_800_000)),
        ("2026-11-30T11:00+01:00", Start(kind="time", time_ms=1_796_032_800_000)),
        ("2026-11-30T11:00 01:00", Start(kind="time", time_ms=1_796_032_800_000)),  # + in a URL
        ("2026-11-30 10:00Z", Start(kind="time", time_ms=1_796_032_800_000)),
    ],
)
def test_a_start_is_understood(text: str, start: Start) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize(
    "text",
    ["newest", "-1", "0:", "0:1,", "0:1;1:2", "1" * 40, f"0:{2**63}", "1960-01-01", "0:1," * 5_000]
)  # fmt: skip
def test_another_text_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(RestError, match=r"earliest|1970") as refused:
        parse_start(text)
    assert refused.value.status == 422


@pytest.mark.parametrize(
    ("start", "positions"),
    [
        (Start(kind="earliest"), {0: 10, 1: 0, 2: 0}),
        (Start(kind="latest"), {0: 20, 1: 5, 2: 0}),
        (Start(kind="pairs", pairs={0: 12, 7: 3}), {0: 12, 1: 0, 2: 0}),
        (Start(kind="time", time_ms=5), {0: 15, 1: 5, 2: 0}),
    ],
)
def test_a_start_is_within_the_log(start: Start, positions: dict[int, int]) -> None:
    assert first_positions(start, LOGS, {0: 15}) == (positions, [])


def test_records_that_are_gone_are_told() -> None:
    """A client that was away for longer than the retention would miss them silently."""
    positions, gaps = first_positions(Start(kind="pairs", pairs={0: 4}), LOGS, {})
    assert positions[0] == 10
    assert gaps == [Gap(partition=0, asked_offset=4, first_offset=10)]


@pytest.mark.parametrize(
    "start", [Start(kind="pairs", pairs={1: 9}), Start(kind="offset", offset=9)]
)
def test_an_offset_beyond_the_end_is_told(start: Start) -> None:
    """The topic was made anew, or a time in milliseconds was taken for an offset."""
    positions, gaps = first_positions(start, {1: LOGS[1]}, {})
    assert positions == {1: 5}
    assert gaps == [Gap(partition=1, asked_offset=9, first_offset=5)]


def test_a_position_is_a_start() -> None:
    positions = {0: 17, 3: 5}
    assert parse_start(pairs_text(positions)).pairs == positions
