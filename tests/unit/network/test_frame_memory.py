"""Memory of large frames is used again, within bounds."""

from mmap import mmap

from log_service.network.frame_memory import KEPT_COUNT, REUSED_BYTES, FrameMemory


def test_a_frame_gets_the_memory_of_an_earlier_one_that_was_as_large() -> None:
    memory = FrameMemory()
    first = memory.take(100_000)
    memory.give_back(first)
    assert memory.take(99_000) is first


def test_a_piece_in_use_is_not_given_twice() -> None:
    memory = FrameMemory()
    first = memory.take(100_000)
    memory.give_back(first)
    assert memory.take(100_000) is first
    assert memory.take(100_000) is not first


def test_a_smaller_piece_does_not_do() -> None:
    memory = FrameMemory()
    memory.give_back(memory.take(100_000))
    assert len(memory.take(100_001)) >= 100_001


def test_the_largest_pieces_are_kept_and_no_more_than_a_few() -> None:
    memory = FrameMemory()
    pieces = [memory.take(70_000 + index) for index in range(KEPT_COUNT + 2)]
    for piece in pieces:
        memory.give_back(piece)
    smallest_first = [memory.take(70_000) for _ in range(KEPT_COUNT + 1)]
    assert all(taken is given for taken, given in zip(smallest_first, pieces[2:], strict=False))
    assert not any(smallest_first[-1] is given for given in pieces)


def test_very_large_frames_get_memory_of_the_system_and_give_it_back() -> None:
    memory = FrameMemory()
    piece = memory.take(REUSED_BYTES + 1)
    assert isinstance(piece, mmap)
    memory.give_back(piece)
    assert memory.take(REUSED_BYTES + 1) is not piece
