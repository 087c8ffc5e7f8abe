"""A scan finds a batch in a file without building headers.

A walk over all headers finds the same, with the same complaints.
"""

import struct
from itertools import pairwise
from random import Random

import pytest

from log_service.records.batch import CorruptBatch, parse_header
from log_service.records.builder import build_batch
from log_service.storage.scanning import find_batch, scan_headers

LENGTH, MAGIC, LAST_DELTA = 8, 16, 23


class Bytes:
    """A file in memory that counts its reads."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.read_count = 0

    def read(self, position: int, size_bytes: int) -> bytes:
        self.read_count += 1
        return self.content[position : position + size_bytes]


def segment(sizes: list[int], *, gap: int = 0) -> tuple[bytes, list[int]]:
    """Return batches of two records with values of these sizes, and where each begins.

    ``gap`` offsets are missing between them.
    """
    content, positions, offset = b"", [], 100
    for size in sizes:
        positions.append(len(content))
        content += build_batch([(0, None, b"v" * size), (0, None, b"")], base_offset=offset)
        offset += 2 + gap
    return content, [*positions, len(content)]


@pytest.mark.parametrize("seed", range(5))
def test_the_same_batch_is_found_as_by_looking_at_every_header(seed: int) -> None:
    dice = Random(seed)
    sizes = [dice.choice([0, 10, 200, 5_000, 9_000, 40_000]) for _ in range(20)]
    content, positions = segment(sizes, gap=dice.choice([0, 3]))
    for begin in dice.sample(positions[:-1], 5):
        for offset in range(95, 220):
            file = Bytes(content)
            slow = next(
                (
                    (found, header.size_bytes)
                    for found, header in scan_headers(file.read, begin, len(content))
                    if header.last_offset >= offset
                ),
                None,
            )
            assert find_batch(file.read, begin, len(content), offset) == slow, f"seed {seed}"


def test_a_batch_near_by_takes_one_read() -> None:
    content, positions = segment([50] * 20)
    file = Bytes(content)
    spans = [(begin, end - begin) for begin, end in pairwise(positions)]
    assert find_batch(file.read, 0, len(content), 100 + 2 * 19) == spans[19]
    assert file.read_count == 1


@pytest.mark.parametrize(
    ("position", "layout", "value"),
    [(LENGTH, ">i", 12), (LENGTH, ">i", 1 << 20), (MAGIC, ">b", 1), (LAST_DELTA, ">i", -1)],
)
def test_bytes_that_are_no_batch_are_complained_about(
    position: int, layout: str, value: int
) -> None:
    content, positions = segment([50] * 5)
    damaged = bytearray(content)
    struct.pack_into(layout, damaged, positions[2] + position, value)
    assert find_batch(Bytes(bytes(damaged)).read, 0, len(content), 102) == (
        positions[1],
        parse_header(content, positions[1]).size_bytes,
    )
    with pytest.raises(CorruptBatch):
        find_batch(Bytes(bytes(damaged)).read, 0, len(content), 106)


def test_nothing_is_found_behind_the_end() -> None:
    content, _ = segment([50] * 3)
    assert find_batch(Bytes(content).read, 0, len(content), 106) is None
    assert find_batch(Bytes(content).read, len(content), len(content), 0) is None
