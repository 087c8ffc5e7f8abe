"""Leader epochs: where each begins and ends, and what truncation leaves of them."""

from pathlib import Path

import pytest

from log_service.common.errors import StorageError
from log_service.storage.leader_epochs import LeaderEpochs
from tests.sim.files import MemoryFiles

PATH = Path("/leader-epoch-checkpoint")


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs(MemoryFiles(), PATH)
    for epoch, start_offset in entries:
        assert made.assign(epoch, start_offset)
    return made


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(-1, (-1, -1), id="undefined"),
        pytest.param(1, (1, 0), id="before all"),
        pytest.param(2, (2, 10), id="ends where the next begins"),
        pytest.param(3, (2, 10), id="between two: the one before"),
        pytest.param(5, (5, 30), id="in the middle"),
        pytest.param(7, (7, 42), id="the latest ends with the log"),
        pytest.param(8, (-1, -1), id="not seen yet"),
    ],
)
def test_end_offset_of_an_epoch(asked: int, expected: tuple[int, int]) -> None:
    assert epochs((2, 0), (5, 10), (7, 30)).end_offset_for(asked, 42) == expected


def test_an_empty_log_knows_no_epoch() -> None:
    assert epochs().end_offset_for(0, 0) == (-1, -1)
    assert epochs().end_offset_for(-2, 0) == (-1, -1), "a request may ask for anything"
    assert epochs().latest == -1


def test_an_epoch_is_assigned_once() -> None:
    made = epochs((2, 0))
    assert not made.assign(2, 5)
    assert not made.assign(1, 5)
    assert made.entries == [(2, 0)]


def test_epochs_without_records_are_replaced() -> None:
    made = epochs((2, 0), (3, 10))
    made.assign(4, 10)
    assert made.entries == [(2, 0), (4, 10)]


def test_truncation_from_the_end() -> None:
    made = epochs((2, 0), (5, 10), (7, 30))
    made.truncate_from_end(30)
    assert (made.entries, made.latest) == ([(2, 0), (5, 10)], 5)
    made.truncate_from_end(0)
    assert (made.entries, made.latest) == ([], -1)


def test_truncation_from_the_start_keeps_the_epoch_that_holds_the_offset() -> None:
    made = epochs((2, 0), (5, 10), (7, 30))
    made.truncate_from_start(15)
    assert made.entries == [(5, 15), (7, 30)]
    made.truncate_from_start(30)
    assert made.entries == [(7, 30)]


def test_epoch_of_an_offset() -> None:
    made = epochs((2, 5), (5, 10))
    assert [made.epoch_of(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 2, 2, 5, 5]


def test_the_file_is_kafkas() -> None:
    files = MemoryFiles()
    made = LeaderEpochs(files, PATH)
    made.assign(0, 0)
    made.assign(3, 17)
    assert made.maybe_write()
    assert not made.maybe_write()
    assert files.read_bytes(PATH) == b"0\n2\n0 0\n3 17\n"
    assert LeaderEpochs.load(files, PATH).entries == [(0, 0), (3, 17)]


@pytest.mark.parametrize(
    "content", [b"\n", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\nx 0\n", b"0\n1\n0 0 0\n", b"\xff\n0\n"]
)
def test_a_damaged_file_is_named(content: bytes) -> None:
    files = MemoryFiles()
    files.open(PATH).append_gathered([content])
    with pytest.raises(StorageError, match="leader-epoch-checkpoint"):
        LeaderEpochs.load(files, PATH)


def test_epochs_above_the_leaders_own_go_when_it_writes() -> None:
    """Apache Kafka 4.3.1 does the same with files of a cluster whose epochs were higher."""
    moved = epochs((0, 0), (2, 150), (4, 175), (6, 200))
    assert moved.lead(2, 225)
    assert (moved.entries, moved.latest) == ([(0, 0), (2, 225)], 2)
    assert not moved.lead(-1, 300)
    assert moved.latest == 2
