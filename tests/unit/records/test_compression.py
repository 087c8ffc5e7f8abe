"""Codecs: round trips, the framings other clients use, and bytes that are made to hurt."""

import gzip
import subprocess
import sys
import tracemalloc
import zlib
from random import Random

import cramjam
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.compression import (
    LEVELS,
    MAX_DECOMPRESSED_BYTES,
    Codec,
    compress,
    decompress,
)
from tests.unit.records.strategies import CODECS

MIB = 1 << 20
REAL_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
PLAIN = b"".join(b"record %d of a log, " % number for number in range(20_000))


def code_of(codec: int, compressed: bytes, max_size_bytes: int = MIB) -> ErrorCode | None:
    """Return the code of the error that ``decompress`` raises, None when it raises none."""
    try:
        decompress(codec, compressed, max_size_bytes)
    except KafkaError as error:
        return error.code
    return None


@given(
    st.one_of(st.binary(max_size=2000), st.binary(max_size=20).map(lambda part: part * 10_000)),
    CODECS,
)
@example(b"", Codec.SNAPPY)
@example(b"", Codec.LZ4)
def test_bytes_come_back(plain: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, plain)) == plain


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_output_may_be_exactly_as_large_as_the_bound(codec: Codec) -> None:
    compressed = compress(codec, PLAIN)
    assert len(compressed) < len(PLAIN)
    assert decompress(codec, compressed, len(PLAIN)) == PLAIN
    assert code_of(codec, compressed, len(PLAIN) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_plain_bytes_are_bounded_too() -> None:
    assert code_of(Codec.NONE, b"12345", 4) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("wrap", [bytearray, memoryview])
def test_any_buffer_is_taken(codec: Codec, wrap: type) -> None:
    assert decompress(codec, wrap(compress(codec, wrap(PLAIN)))) == PLAIN


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_levels_trade_time_for_size_and_read_the_same(codec: Codec) -> None:
    levels = LEVELS[codec]
    for level in (levels[0], 1, levels[-1]):
        assert decompress(codec, compress(codec, PLAIN[:5000], level)) == PLAIN[:5000]


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, 0),
        (Codec.GZIP, 10),
        (Codec.LZ4, 18),
        (Codec.ZSTD, 23),
        (Codec.SNAPPY, 1),
        (Codec.NONE, 1),
    ],
)
def test_level_that_a_codec_does_not_have_is_refused(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match=f"level {level}"):
        compress(codec, b"x", level)


def test_codecs_have_the_names_of_configuration() -> None:
    assert [Codec.of_name(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(
        Codec
    )
    assert Codec.of_name("uncompressed") is Codec.NONE
    with pytest.raises(KafkaError, match="brotli"):
        Codec.of_name("brotli")


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_codec_that_does_not_exist_is_refused(codec: int) -> None:
    assert code_of(codec, b"x") is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# Other people's framings


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_frames_that_follow_each_other_are_one_stream(codec: Codec) -> None:
    second = compress(codec, b"second")
    if codec is Codec.SNAPPY:
        second = second[16:]  # one stream header, many blocks
    assert decompress(codec, compress(codec, b"first ") + second) == b"first second"


def test_raw_snappy_is_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN))) == PLAIN


def test_snappy_versions_in_the_wrong_byte_order_are_read() -> None:
    stream = bytearray(compress(Codec.SNAPPY, PLAIN))
    stream[8:16] = (1).to_bytes(4, "little") * 2
    assert decompress(Codec.SNAPPY, stream) == PLAIN


def test_snappy_is_framed_in_blocks_of_the_xerial_library() -> None:
    stream = compress(Codec.SNAPPY, bytes(40_000))
    assert stream[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first_bytes = int.from_bytes(stream[16:20], "big")
    assert len(cramjam.snappy.decompress_raw(stream[20 : 20 + first_bytes])) == 32 * 1024


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.LZ4, (1, 9)), (Codec.ZSTD, (-100, 19))]
)
def test_a_higher_level_makes_it_smaller(codec: Codec, levels: tuple[int, int]) -> None:
    text = " ".join(
        f"flight {number * 7_919 % 10_007} of the day" for number in range(8_000)
    ).encode()
    fast, small = (compress(codec, text, level) for level in levels)
    assert len(small) < len(fast)
    assert decompress(codec, fast, len(text)) == decompress(codec, small, len(text)) == text


@pytest.mark.parametrize("level", [1, 9, 12, 17])
def test_lz4_frames_of_every_level_are_of_one_shape(level: int) -> None:
    random_part = Random(level).randbytes(200_000)
    plain = random_part + bytes(200_000)
    frame = compress(Codec.LZ4, plain, level)
    assert frame[:7] == compress(Codec.LZ4, plain)[:7]
    assert bytes(cramjam.lz4.decompress(frame)) == plain


def test_lz4_blocks_are_independent_and_small() -> None:
    flags, block_descriptor = compress(Codec.LZ4, PLAIN)[4:6]
    assert flags & 0x20
    assert block_descriptor == 0x40


@pytest.mark.parametrize(
    "plain", [PLAIN, bytes(range(256)) * 1000, b"\x00" * 65536, b"x" * 65537, b"y"]
)
def test_lz4_frames_are_read_by_another_reader(plain: bytes) -> None:
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, plain))) == plain


@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("has_checksum", [False, True])
def test_lz4_blocks_of_both_modes_are_read(is_linked: bool, has_checksum: bool) -> None:
    compressor = cramjam.lz4.Compressor(
        level=1, content_checksum=has_checksum, block_linked=is_linked
    )
    compressor.compress(PLAIN)
    assert decompress(Codec.LZ4, bytes(compressor.finish())) == PLAIN


@pytest.mark.parametrize("size_bytes", [0, 1, 255, 256, 300, 65535 + 256, 65536 + 256, 300_000])
@pytest.mark.parametrize("has_content_size", [False, True])
def test_zstd_with_and_without_content_size_is_read(
    size_bytes: int, has_content_size: bool
) -> None:
    plain = PLAIN[:size_bytes]
    compressor = zstandard.ZstdCompressor(write_content_size=has_content_size, write_checksum=True)
    assert decompress(Codec.ZSTD, compressor.compress(plain)) == plain


def test_zstd_of_a_stream_is_read() -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    stream = compressor.compress(PLAIN) + compressor.flush()
    assert decompress(Codec.ZSTD, stream) == PLAIN


def test_gzip_with_a_file_name_is_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(PLAIN)) == PLAIN
    assert zlib.decompress(compress(Codec.GZIP, PLAIN), 31) == PLAIN


# Bytes that are made to hurt


def bomb(codec: Codec) -> bytes:
    return compress(codec, bytes(64 * MIB))


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_bomb_is_refused_within_its_bound(codec: Codec) -> None:
    compressed = bomb(codec)
    tracemalloc.start()
    try:
        assert code_of(codec, compressed, MIB) is ErrorCode.MESSAGE_TOO_LARGE
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * MIB + len(compressed)


BOMBS_UNDER_A_MEMORY_LIMIT = """
import resource, sys
from log_service.common.errors import KafkaError
from log_service.records.compression import decompress
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for line in sys.stdin:
    codec, compressed = line.split()
    try:
        decompress(int(codec), bytes.fromhex(compressed), 1 << 20)
    except KafkaError as error:
        print(error.code.name)
"""


def test_no_announced_length_ends_the_process() -> None:
    """Raw snappy and lz4 blocks that announce gigabytes abort a process whose allocator believes
    them.

    Cramjam's ``decompress_raw`` does.
    """
    four_gib = "ffffffff0f"
    block = four_gib + "00" * 20
    cases = [
        (Codec.SNAPPY, block),
        (
            Codec.SNAPPY,
            (b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + (25).to_bytes(4, "big")).hex()
            + block,
        ),
        (
            Codec.SNAPPY,
            (b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + b"\x7f\xff\xff\xff").hex() + block,
        ),
        (Codec.LZ4, "04224d18 68 70".replace(" ", "") + "ff" * 8 + "00" * 8),
        (Codec.ZSTD, "28b52ffd" + "e0" + "ff" * 7 + "0f" + "00" * 16),
        (Codec.ZSTD, "28b52ffd" + "c0" + "88" + "ff" * 8 + "00" * 16),
        (Codec.GZIP, "1f8b08" + "00" * 20),
    ]
    lines = "".join(f"{codec:d} {compressed}\n" for codec, compressed in cases)
    finished = subprocess.run(
        [sys.executable, "-c", BOMBS_UNDER_A_MEMORY_LIMIT],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    codes = finished.stdout.split()
    assert len(codes) == len(cases)
    assert set(codes) <= {"CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE"}


@given(st.sampled_from(REAL_CODECS), st.binary(max_size=200))
@example(Codec.SNAPPY, b"\x82SNAPPY\x00")
@example(Codec.SNAPPY, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00")
@example(Codec.SNAPPY, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xffab")
@example(Codec.SNAPPY, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00ab")
@example(Codec.SNAPPY, b"\xff\xff\xff\xff\xff\xff")
def test_random_bytes_decompress_or_are_corrupt(codec: Codec, compressed: bytes) -> None:
    assert code_of(codec, compressed) in {
        None,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
    }


@given(
    st.sampled_from(REAL_CODECS),
    st.integers(0, 10_000),
    st.integers(0, 255),
    st.integers(0, 10_000),
)
def test_damaged_streams_decompress_or_are_corrupt(
    codec: Codec, index: int, byte: int, cut_bytes: int
) -> None:
    compressed = bytearray(compress(codec, PLAIN[:3000]))
    compressed[index % len(compressed)] = byte
    del compressed[len(compressed) - cut_bytes % 20 :]
    assert code_of(codec, bytes(compressed)) in {
        None,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
    }


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_cut_off_stream_is_corrupt(codec: Codec, kept: float) -> None:
    compressed = compress(codec, PLAIN)
    assert code_of(codec, compressed[: int(len(compressed) * kept)]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_error_names_codec_and_size(codec: Codec) -> None:
    with pytest.raises(KafkaError, match=f"5 bytes do not decompress with {codec.name.lower()}"):
        decompress(codec, b"\xff\xfe\xfd\xfc\xfb", MAX_DECOMPRESSED_BYTES)
