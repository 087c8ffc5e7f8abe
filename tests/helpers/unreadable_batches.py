"""Makes batches with a right checksum and records that no client can read.

An older version or another broker may have left such batches.
"""

from pathlib import Path

from log_service.records.batch import CRC, CRC_POSITION, HEADER_SIZE, compute_crc, iterate_headers

_MINUS_ONE = 1  # as a varint


def garble(segment: Path, base_offset: int) -> None:
    """Give the first record of a batch in the files of a stopped node a negative length."""
    content = bytearray(segment.read_bytes())
    position, header = next(
        found for found in iterate_headers(content) if found[1].base_offset == base_offset
    )
    content[position + HEADER_SIZE] = _MINUS_ONE
    CRC.pack_into(
        content,
        position + CRC_POSITION,
        compute_crc(content[position : position + header.size_bytes]),
    )
    segment.write_bytes(content)
