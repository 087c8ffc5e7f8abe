"""Memory of large frames is used again, within bounds."""

import pytest

from log_service.network.frame_memory import KEPT_BYTES, SYSTEM_BYTES, FrameMemory

SIZES = [100_000, SYSTEM_BYTES, SYSTEM_BYTES + 1, KEPT_BYTES]


@pytest.mark.parametrize("size_bytes", SIZES)
def test_a_frame_gets_the_memory_of_an_earlier_one_that_was_as_large(size_bytes: int) -> None:
    memory = FrameMemory()
    first = memory.take(size_bytes)
    memory.give_back(first)
    assert memory.kept_bytes == size_bytes
    assert memory.take(size_bytes - 1_000) is first
    assert memory.kept_bytes == 0


@pytest.mark.parametrize("size_bytes", SIZES)
def test_a_piece_in_use_is_not_given_twice(size_bytes: int) -> None:
    memory = FrameMemory()
    memory.give_back(memory.take(size_bytes))
    assert memory.take(size_bytes) is not memory.take(size_bytes)


def test_a_smaller_piece_does_not_do_and_of_larger_ones_the_smallest_does() -> None:
    memory = FrameMemory()
    small, middle, large = (memory.take(size) for size in (100_000, 200_000, 300_000))
    for piece in (large, small, middle):
        memory.give_back(piece)
    assert memory.take(100_001) is middle


def test_no_more_is_kept_than_the_bound_and_the_smallest_go_first() -> None:
    memory = FrameMemory()
    pieces = [memory.take(size) for size in (KEPT_BYTES // 2, KEPT_BYTES // 4, KEPT_BYTES // 4 + 1)]
    for piece in pieces:
        memory.give_back(piece)
    assert memory.kept_bytes == KEPT_BYTES // 2 + KEPT_BYTES // 4 + 1
    assert memory.take(KEPT_BYTES // 8) is pieces[2]
    assert memory.take(KEPT_BYTES // 8) is pieces[0]


def test_a_piece_beyond_the_bound_goes_back_to_the_system() -> None:
    memory = FrameMemory()
    memory.give_back(memory.take(KEPT_BYTES + 1))
    assert memory.kept_bytes == 0
