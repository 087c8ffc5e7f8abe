"""Record sections as good and bad encoders write them, and what Apache Kafka 4.3.1 does with each."""

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cramjam
import xxhash
import zstandard

from log_service.records.batch import (
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    compute_crc,
)
from tests.unit.records.raw_records import raw_record

ACCEPTED_BY_KAFKA = frozenset(
    {
        "none", "none attributes", "none null key", "none good header", "none timestamp delta of ten bytes", "gzip", "gzip two members",
        "snappy", "snappy blocks", "snappy raw", "snappy version 2", "snappy version swapped", "snappy empty block", "lz4",
        "lz4 block checksums", "lz4 content checksum", "lz4 size", "lz4 stored block", "lz4 blocks of 4 MiB", "zstd", "zstd no size",
        "zstd checksum", "zstd two frames", "zstd skippable frame first", "zstd skippable frame last", "zstd window of 128 MiB",
    }
)  # fmt: skip
"""Cases that get no error; a differential test asks a running node."""
ACCEPTED_BY_KAFKA_ALONE = frozenset(
    {
        "none offset delta skipped", "none offset delta repeated", "gzip trailing bytes", "gzip trailing zeros", "snappy two streams",
        "snappy trailing bytes", "lz4 wrong content checksum", "lz4 trailing bytes",
    }
)  # fmt: skip
"""Cases that Apache Kafka accepts and this product refuses, because other clients than Java's
cannot read them.
"""
TIME_MS = 1_700_000_000_000
COUNT = 50


class Framed(NamedTuple):
    """A record section: the codec's number, its bytes, and how many records the header announces."""

    name: str
    codec: int
    section: bytes
    record_count: int = COUNT


RECORDS = b"".join(
    raw_record(index, b"key", b"value %d " % index + b"x" * 100) for index in range(COUNT)
)
BIG = b"".join(
    raw_record(
        index,
        b"key",
        b"value %d " % index + bytes(index * place * 7919 % 251 for place in range(5_000)),
    )
    for index in range(COUNT)
)


def flipped(section: bytes, position: int) -> bytes:
    """The section with one byte turned over."""
    changed = bytearray(section)
    changed[position] ^= 0xFF
    return bytes(changed)


def xerial(plain: bytes, block_bytes: int = 32_768) -> bytes:
    """Snappy blocks in the framing of the xerial library."""
    blocks = [
        bytes(cramjam.snappy.compress_raw(plain[start : start + block_bytes]))
        for start in range(0, len(plain), block_bytes)
    ]
    return (
        b"\x82SNAPPY\0"
        + struct.pack(">ii", 1, 1)
        + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    )


def lz4(
    plain: bytes,
    *,
    block_code: int = 4,
    is_linked: bool = False,
    has_block_checksums: bool = False,
    has_size: bool = False,
    has_checksum: bool = False,
    version: int = 1,
    reserved: int = 0,
) -> bytes:
    """One lz4 frame; blocks of 64 KiB (code 4) to 4 MiB (7)."""
    flags = (
        version << 6
        | (not is_linked) << 5
        | has_block_checksums << 4
        | has_size << 3
        | has_checksum << 2
        | reserved
    )
    descriptor = bytes([flags, block_code << 4]) + (
        struct.pack("<Q", len(plain)) if has_size else b""
    )
    frame = (
        b"\x04\x22\x4d\x18" + descriptor + bytes([xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF])
    )
    size = 1 << (8 + 2 * block_code)
    for start in range(0, len(plain), size):
        block = bytes(cramjam.lz4.compress_block(plain[start : start + size], store_size=False))
        frame += struct.pack("<I", len(block)) + block
        frame += struct.pack("<I", xxhash.xxh32_intdigest(block)) if has_block_checksums else b""
    return (
        frame
        + bytes(4)
        + (struct.pack("<I", xxhash.xxh32_intdigest(plain)) if has_checksum else b"")
    )


def linked_lz4(plain: bytes) -> bytes:
    """A frame whose blocks refer to each other."""
    compressor = cramjam.lz4.Compressor(level=4, content_checksum=False, block_linked=True)
    compressor.compress(plain)
    return bytes(compressor.finish())


def zstd(plain: bytes, *, window_log: int | None = None, **more: bool) -> bytes:
    """One zstd frame."""
    if window_log is None:
        return zstandard.ZstdCompressor(**more).compress(plain)  # type: ignore[arg-type]
    parameters = zstandard.ZstdCompressionParameters.from_level(
        3, window_log=window_log, write_content_size=0
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return compressor.compress(plain) + compressor.flush()


SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"abcd"


def _one_record(record: bytes) -> bytes:
    return raw_record(0, b"key", b"first") + record + raw_record(2, b"key", b"third")


def framed_sections() -> Iterator[Framed]:
    """Yield all cases."""
    yield from _plain()
    yield from _gzip()
    yield from _snappy()
    yield from _lz4()
    yield from _zstd()
    yield Framed("codec 5", 5, RECORDS)
    yield Framed("codec 7", 7, RECORDS)


def _plain() -> Iterator[Framed]:
    yield Framed("none", 0, RECORDS)
    yield Framed("none count too high", 0, RECORDS, COUNT + 1)
    yield Framed("none count too low", 0, RECORDS, COUNT - 1)
    yield Framed("none trailing bytes", 0, RECORDS + b"zz")
    yield Framed("none cut off", 0, RECORDS[:-3])
    yield Framed("none offset delta skipped", 0, _one_record(raw_record(5, b"key", b"second")), 3)
    yield Framed("none offset delta repeated", 0, _one_record(raw_record(0, b"key", b"second")), 3)
    yield Framed(
        "none attributes", 0, _one_record(raw_record(1, b"key", b"second", attributes=0x7F)), 3
    )
    yield Framed("none null key", 0, _one_record(raw_record(1, None, b"second")), 3)
    yield Framed(
        "none length longer than fields",
        0,
        _one_record(raw_record(1, b"key", b"second", surplus=b"zz")),
        3,
    )
    yield Framed(
        "none value past its record",
        0,
        _one_record(raw_record(1, b"key", b"second", value_length=400)),
        3,
    )
    yield Framed(
        "none value length -2", 0, _one_record(raw_record(1, b"key", b"second", value_length=-2)), 3
    )
    yield Framed(
        "none key length -2", 0, _one_record(raw_record(1, b"key", b"second", key_length=-2)), 3
    )
    yield Framed(
        "none header count too high",
        0,
        _one_record(raw_record(1, b"key", b"second", header_count=9)),
        3,
    )
    yield Framed(
        "none negative header count",
        0,
        _one_record(raw_record(1, b"key", b"second", header_count=-1)),
        3,
    )
    yield Framed(
        "none good header",
        0,
        _one_record(raw_record(1, b"key", b"second", headers=[(b"name", b"value")])),
        3,
    )
    yield Framed(
        "none header without name",
        0,
        _one_record(raw_record(1, b"key", b"second", headers=[(None, b"value")])),
        3,
    )
    yield Framed(
        "none timestamp delta of ten bytes",
        0,
        _one_record(raw_record(1, b"key", b"second", timestamp_delta=-(1 << 62))),
        3,
    )


def _gzip() -> Iterator[Framed]:
    packed = gzip.compress(RECORDS, 6)
    yield Framed("gzip", 1, packed)
    yield Framed("gzip garbage", 1, b"garbage" * 10)
    yield Framed("gzip wrong checksum", 1, flipped(packed, -6))
    yield Framed("gzip wrong size", 1, flipped(packed, -2))
    yield Framed("gzip no trailer", 1, packed[:-8])
    yield Framed("gzip cut trailer", 1, packed[:-3])
    yield Framed(
        "gzip two members", 1, gzip.compress(RECORDS[:1_000]) + gzip.compress(RECORDS[1_000:])
    )
    yield Framed("gzip trailing bytes", 1, packed + b"zzzz")
    yield Framed("gzip trailing zeros", 1, packed + bytes(40))
    yield Framed("gzip raw zlib", 1, zlib.compress(RECORDS))
    yield Framed("gzip count too high", 1, packed, COUNT + 1)
    yield Framed("gzip count too low", 1, packed, COUNT - 1)
    yield Framed("gzip empty", 1, b"")
    yield Framed(
        "gzip offset delta skipped",
        1,
        gzip.compress(_one_record(raw_record(5, b"key", b"second"))),
        3,
    )
    yield Framed("gzip plain bytes left over", 1, gzip.compress(RECORDS + b"zz"))
    yield Framed("gzip plain cut off", 1, gzip.compress(RECORDS[:-3]))
    yield Framed(
        "gzip header count too high",
        1,
        gzip.compress(_one_record(raw_record(1, b"key", b"second", header_count=9))),
        3,
    )
    yield Framed(
        "gzip length longer than fields",
        1,
        gzip.compress(_one_record(raw_record(1, b"key", b"second", surplus=b"zz"))),
        3,
    )


def _snappy() -> Iterator[Framed]:
    yield Framed("snappy", 2, xerial(RECORDS))
    yield Framed("snappy blocks", 2, xerial(BIG, 10_000))
    yield Framed("snappy raw", 2, bytes(cramjam.snappy.compress_raw(RECORDS)))
    yield Framed("snappy framing format", 2, bytes(cramjam.snappy.compress(RECORDS)))
    yield Framed("snappy garbage", 2, b"garbage" * 10)
    yield Framed("snappy cut off", 2, xerial(RECORDS)[:-5])
    yield Framed("snappy two streams", 2, xerial(RECORDS[:1_000]) + xerial(RECORDS[1_000:]))
    yield Framed("snappy trailing bytes", 2, xerial(RECORDS) + b"zz")
    yield Framed("snappy empty", 2, b"")
    yield Framed(
        "snappy version 2", 2, b"\x82SNAPPY\0" + struct.pack(">ii", 2, 2) + xerial(RECORDS)[16:]
    )
    yield Framed(
        "snappy version swapped",
        2,
        b"\x82SNAPPY\0" + struct.pack("<ii", 1, 1) + xerial(RECORDS)[16:],
    )
    yield Framed("snappy empty block", 2, xerial(RECORDS) + struct.pack(">i", 1) + b"\0")


def _lz4() -> Iterator[Framed]:
    yield Framed("lz4", 3, lz4(RECORDS))
    yield Framed("lz4 linked small", 3, lz4(RECORDS, is_linked=True))
    yield Framed("lz4 linked big", 3, linked_lz4(BIG))
    yield Framed("lz4 block checksums", 3, lz4(BIG, has_block_checksums=True))
    yield Framed("lz4 content checksum", 3, lz4(BIG, has_checksum=True))
    yield Framed("lz4 wrong content checksum", 3, flipped(lz4(BIG, has_checksum=True), -1))
    yield Framed("lz4 wrong block checksum", 3, flipped(lz4(BIG, has_block_checksums=True), -5))
    yield Framed("lz4 size", 3, lz4(BIG, has_size=True))
    yield Framed("lz4 wrong header checksum", 3, flipped(lz4(RECORDS), 6))
    yield Framed("lz4 version 2", 3, lz4(RECORDS, version=2))
    yield Framed("lz4 reserved bit", 3, lz4(RECORDS, reserved=2))
    yield Framed("lz4 dictionary", 3, lz4(RECORDS, reserved=1))
    yield Framed("lz4 block code 3", 3, lz4(RECORDS, block_code=3))
    yield Framed("lz4 two frames", 3, lz4(RECORDS[:1_000]) + lz4(RECORDS[1_000:]))
    yield Framed("lz4 no end mark", 3, lz4(RECORDS)[:-4])
    yield Framed("lz4 trailing bytes", 3, lz4(RECORDS) + b"zzzz")
    yield Framed("lz4 cut off", 3, lz4(BIG)[:-500])
    yield Framed("lz4 garbage", 3, b"garbage" * 10)
    yield Framed(
        "lz4 garbage block",
        3,
        lz4(RECORDS)[:7] + struct.pack("<I", 70) + b"garbage" * 10 + bytes(4),
    )
    yield Framed(
        "lz4 block above its size",
        3,
        lz4(RECORDS)[:7] + struct.pack("<I", 1 << 20) + bytes(1 << 20) + bytes(4),
    )
    yield Framed(
        "lz4 stored block",
        3,
        lz4(RECORDS)[:7] + struct.pack("<I", len(RECORDS) | 1 << 31) + RECORDS + bytes(4),
    )
    yield Framed("lz4 skippable frame first", 3, SKIPPABLE + lz4(RECORDS))
    yield Framed("lz4 blocks of 4 MiB", 3, lz4(BIG, block_code=7))
    yield Framed(
        "lz4 wrong size",
        3,
        lz4(RECORDS, has_size=True).replace(struct.pack("<Q", len(RECORDS)), bytes(8)),
    )
    yield Framed("lz4 empty", 3, b"")
    yield Framed("lz4 count too low", 3, lz4(RECORDS), COUNT - 1)


def _zstd() -> Iterator[Framed]:
    yield Framed("zstd", 4, zstd(RECORDS))
    yield Framed("zstd no size", 4, zstd(RECORDS, write_content_size=False))
    yield Framed("zstd checksum", 4, zstd(RECORDS, write_checksum=True))
    yield Framed("zstd wrong checksum", 4, flipped(zstd(RECORDS, write_checksum=True), -1))
    yield Framed("zstd two frames", 4, zstd(RECORDS[:1_000]) + zstd(RECORDS[1_000:]))
    yield Framed("zstd skippable frame first", 4, SKIPPABLE + zstd(RECORDS))
    yield Framed("zstd skippable frame last", 4, zstd(RECORDS) + SKIPPABLE)
    yield Framed("zstd trailing bytes", 4, zstd(RECORDS) + b"zzzz")
    yield Framed("zstd cut off", 4, zstd(RECORDS)[:-3])
    yield Framed("zstd garbage", 4, b"garbage" * 10)
    yield Framed("zstd window of 128 MiB", 4, zstd(RECORDS, window_log=27))
    yield Framed("zstd window of 1 GiB", 4, zstd(RECORDS, window_log=30))
    yield Framed("zstd empty", 4, b"")
    yield Framed("zstd count too low", 4, zstd(RECORDS), COUNT - 1)
    yield Framed("zstd count too high", 4, zstd(RECORDS), COUNT + 1)


def framed_batch(framed: Framed) -> bytearray:
    """The whole batch of a case, with a checksum that holds."""
    length = HEADER_SIZE - LOG_OVERHEAD + len(framed.section)
    content = bytearray(
        HEADER.pack(
            0,
            length,
            -1,
            MAGIC,
            0,
            framed.codec,
            framed.record_count - 1,
            TIME_MS,
            TIME_MS,
            -1,
            -1,
            -1,
            framed.record_count,
        )
        + framed.section
    )
    CRC.pack_into(content, CRC_POSITION, compute_crc(content))
    return content
