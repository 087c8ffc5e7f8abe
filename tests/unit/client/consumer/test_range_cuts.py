"""A reader cuts a range of offsets out of a response by the headers of its batches.

None of them was checked yet.
"""

import struct

import pytest

from log_service.client.consumer.range_reader import _cut
from log_service.common.types import TopicPartition
from log_service.protocol.messages.fetch import PartitionData
from log_service.records.batch import iterate_headers
from log_service.records.builder import build_batch

LAST_OFFSET_DELTA = 23


def response(flipped: int = 0) -> PartitionData:
    """Three batches of three records; ``flipped`` are bits of what the first claims to be its last
    offset.
    """
    batches = [
        bytearray(build_batch([(0, None, b"v")] * 3, base_offset=base)) for base in (0, 3, 6)
    ]
    (delta,) = struct.unpack_from(">i", batches[0], LAST_OFFSET_DELTA)
    struct.pack_into(">i", batches[0], LAST_OFFSET_DELTA, delta ^ flipped)
    return PartitionData(records=b"".join(batches), high_watermark=9, last_stable_offset=9)


@pytest.mark.parametrize("flipped", [0, 1 << 22, 1 << 2])
def test_a_header_that_claims_too_much_hides_no_later_batch(flipped: int) -> None:
    """One flipped bit made all batches of the response unreadable."""
    cut = _cut(response(flipped), TopicPartition("a", 0), 0, 9, None, check_crcs=False)
    assert [header.base_offset for _, header in iterate_headers(cut.batches)] == [0, 3, 6]
    assert cut.position == 9
