"""The codecs of record batches, gzip, snappy, lz4 and zstd, with bounded decompression.

Each codec is framed so that every Kafka client can read it. Snappy uses the block framing of the
xerial library, and lz4 uses frames of independent 64 KiB blocks. The module also bounds the memory
that compressed bytes may claim. It knows nothing of batches.

Invariants: ``decompress`` never allocates more than ``max_size_bytes`` of output plus a fixed
working set of the codec, whatever size the bytes announce. It raises only ``KafkaError``. Only
functions that write into our own buffer are used. Those that allocate by an announced length (raw
snappy, lz4 blocks) end the process if the allocation fails.
"""

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from mmap import mmap
from struct import Struct

import cramjam

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""The default bound of 128 MiB for one batch."""


class Codec(IntEnum):
    """The compression codec, numbered as in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of_name(cls, name: str) -> "Codec":
        """Return the codec of a configured name: none or uncompressed, gzip, snappy, lz4, zstd.

        Raises:
            KafkaError: UNSUPPORTED_COMPRESSION_TYPE, there is no such codec.
        """
        try:
            return _CODECS_BY_NAME[name]
        except KeyError:
            text = f"no codec is called {name!r}: use one of {', '.join(_CODECS_BY_NAME)}"
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text) from None


_CODECS_BY_NAME = {codec.name.lower(): codec for codec in Codec} | {"uncompressed": Codec.NONE}

LEVELS = {Codec.GZIP: range(1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(-131072, 23)}
"""The levels of each codec (KIP-390).

Snappy has none.

By default gzip uses 6, lz4 its fast mode and zstd 3.
"""


def compress(codec: Codec, plain: Buffer, level: int | None = None) -> bytes:
    """Return ``plain`` compressed.

    ``level`` is on the codec's own scale; None is its default.

    Raises:
        ValueError: the codec does not have that level (``LEVELS``).
    """
    if level is not None and level not in LEVELS.get(codec, ()):
        text = f"{codec.name.lower()} has no compression level {level}"
        raise ValueError(text)
    match codec:
        case Codec.NONE:
            return bytes(plain)
        case Codec.GZIP:
            return zlib.compress(
                plain, _GZIP_DEFAULT_LEVEL if level is None else level, wbits=_GZIP_WBITS
            )
        case Codec.SNAPPY:
            return _compress_snappy(plain)
        case Codec.LZ4:
            return _compress_lz4(plain, level)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(plain, level=level))


TakeParts = Callable[[int], None]
"""Hears how many parts of compressed bytes are opened next. Each takes a step of a loop."""


def _take_any(_count: int) -> None:
    """Allow any number of parts. This is the default of ``take_parts``."""


def decompress(
    codec: int, compressed: Buffer, max_size_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """Return the decompressed bytes, at most ``max_size_bytes``.

    Raises:
        KafkaError: CORRUPT_MESSAGE, the codec does not write such bytes; MESSAGE_TOO_LARGE, they
            decompress to more than ``max_size_bytes`` (a producer then splits the batch, while it
            would send a corrupt batch again unchanged); UNSUPPORTED_COMPRESSION_TYPE, there is no
            such codec.
    """
    plain = open_compressed(codec, compressed, max_size_bytes)
    return plain if isinstance(plain, bytes) else bytes(plain)


def open_compressed(
    codec: int,
    compressed: Buffer,
    max_size_bytes: int = MAX_DECOMPRESSED_BYTES,
    *,
    take_parts: TakeParts = _take_any,
) -> Buffer:
    """Return the result of ``decompress`` as a buffer to read.

    Other threads never wait longer than a few milliseconds for the interpreter. ``take_parts`` is
    called with the number of gzip members or snappy blocks before they are opened, and may raise.

    Raises:
        KafkaError: as ``decompress``.
    """
    if codec not in _DECOMPRESSORS:
        text = f"compression codec {codec} does not exist; the codecs are 0 to {Codec.ZSTD:d}"
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    try:
        return _DECOMPRESSORS[codec](compressed, max_size_bytes, take_parts)
    except (zlib.error, cramjam.DecompressionError) as error:
        raise _corrupt(Codec(codec), compressed, str(error)) from error


_SMALL_BYTES = 4 << 20


def _new_room(size_bytes: int) -> memoryview:
    """Return memory of ``size_bytes`` to decompress into.

    A large piece is mapped page by page, because zeroing it would hold the interpreter.
    """
    return memoryview(bytearray(size_bytes) if size_bytes <= _SMALL_BYTES else mmap(-1, size_bytes))


# Plain


def _copy(plain: Buffer, max_size_bytes: int, take_parts: TakeParts) -> bytes:  # noqa: ARG001 - one shape for all
    if len(plain) > max_size_bytes:
        raise _too_large(max_size_bytes)
    return bytes(plain)


# gzip: zlib grows its output and stops at a length

_GZIP_WBITS = 31
_GZIP_DEFAULT_LEVEL = 6
_GZIP_PIECE_BYTES = 64 << 10
_GZIP_PART_BYTES = 256 << 10


def _decompress_gzip(compressed: Buffer, max_size_bytes: int, take_parts: TakeParts) -> Buffer:
    """Decompress every member of the stream. Members follow each other without a gap."""
    member = zlib.decompressobj(_GZIP_WBITS)
    plain = member.decompress(compressed, min(max_size_bytes, _SMALL_BYTES) + 1)
    if member.eof and not member.unused_data and len(plain) <= max_size_bytes:
        return plain
    return _decompress_members(compressed, max_size_bytes, take_parts)


def _decompress_members(compressed: Buffer, max_size_bytes: int, take_parts: TakeParts) -> Buffer:
    """Decompress a gzip stream in parts, because it is large, has several members or is invalid."""
    room, size_bytes = _new_room(max_size_bytes), 0
    for part in _gzip_parts(compressed, take_parts):
        if size_bytes + len(part) > max_size_bytes:
            raise _too_large(max_size_bytes)
        room[size_bytes : size_bytes + len(part)] = part
        size_bytes += len(part)
    return room[:size_bytes]


def _gzip_parts(compressed: Buffer, take_parts: TakeParts) -> Iterator[bytes]:
    """Yield the decompressed parts of a stream.

    The input is fed in pieces, because zlib copies unconsumed input after each step.
    """
    view = memoryview(compressed)
    member = zlib.decompressobj(_GZIP_WBITS)
    is_begun = False
    for start in range(0, len(view), _GZIP_PIECE_BYTES):
        rest: Buffer = view[start : start + _GZIP_PIECE_BYTES]
        while len(rest):
            if member.eof:
                take_parts(1)
                member, is_begun = zlib.decompressobj(_GZIP_WBITS), False
            yield member.decompress(rest, _GZIP_PART_BYTES)
            is_begun = True
            rest = member.unused_data if member.eof else member.unconsumed_tail
    while not member.eof and is_begun and (part := member.decompress(b"", _GZIP_PART_BYTES)):
        yield part
    if not member.eof:
        raise _corrupt(Codec.GZIP, compressed, "the stream ends early")


# snappy: blocks in the framing of the xerial library, or one raw block

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
# The magic is followed by the version and the oldest version that can read it, both 1.
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_MAX_RATIO = 32  # three bytes stand for at most 64
_INT32 = Struct(">i")


def _compress_snappy(plain: Buffer) -> bytes:
    view = memoryview(plain)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(compressed: Buffer, max_size_bytes: int, take_parts: TakeParts) -> Buffer:
    view = memoryview(compressed)
    blocks = _xerial_blocks(view) if view[:8] == _XERIAL_MAGIC else [view]
    take_parts(len(blocks))
    sizes = [_announced_bytes(block) for block in blocks]
    if sum(sizes) > max_size_bytes:
        raise _too_large(max_size_bytes)
    plain, position = _new_room(sum(sizes)), 0
    for block, size_bytes in zip(blocks, sizes, strict=True):
        if (
            cramjam.snappy.decompress_raw_into(block, plain[position : position + size_bytes])
            != size_bytes
        ):
            raise _corrupt(Codec.SNAPPY, compressed, "a block is shorter than it announces")
        position += size_bytes
    return plain


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    """Split a stream of the xerial library into its blocks.

    The two version numbers are ignored, because some producers swap them.
    """
    blocks: list[memoryview] = []
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if len(view) - position < _INT32.size:
            raise _corrupt(Codec.SNAPPY, view, "the length of a block is cut off")
        (size_bytes,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 < size_bytes <= len(view) - position:
            raise _corrupt(
                Codec.SNAPPY,
                view,
                f"a block of {size_bytes} bytes where {len(view) - position} are left",
            )
        blocks.append(view[position : position + size_bytes])
        position += size_bytes
    return blocks


def _announced_bytes(block: memoryview) -> int:
    """Return the decompressed length that a raw block announces at its beginning.

    It is an unsigned varint of at most 32 bits.
    """
    size_bytes = 0
    for index, byte in enumerate(block[:5]):
        size_bytes |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if size_bytes > _SNAPPY_MAX_RATIO * len(block):
                break
            return size_bytes
    raise _corrupt(Codec.SNAPPY, block, "a block announces a length that it cannot have")


# lz4: frames. Java's reader refuses blocks that depend on each other and buffers one block, so
# blocks are independent and small.

# The bytes are the magic, version 1 with independent blocks, 64 KiB blocks, and the checksum.
_LZ4_FRAME_HEADER = bytes.fromhex("04224d18 60 40 82")
_LZ4_END_MARK = bytes(4)
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED_FLAG = 0x8000_0000
_LZ4_INDEPENDENT_FLAG, _LZ4_BLOCK_CHECKSUM_FLAG, _LZ4_SIZE_FLAG, _LZ4_CONTENT_CHECKSUM_FLAG = (
    0x20,
    0x10,
    0x08,
    0x04,
)
_LZ4_HIGHEST_LEVEL = 12
_UINT32_LE = Struct("<I")


def _compress_lz4(plain: Buffer, level: int | None) -> bytes:
    blocks = (
        _fast_lz4_blocks(plain)
        if level is None
        else _lz4_blocks_of_level(plain, min(level, _LZ4_HIGHEST_LEVEL))
    )
    return b"".join((_LZ4_FRAME_HEADER, *blocks, _LZ4_END_MARK))


def _fast_lz4_blocks(plain: Buffer) -> Iterator[bytes]:
    view = memoryview(plain)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        block = view[start : start + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, mode="fast", store_size=False))
        if len(packed) < len(block):
            yield _UINT32_LE.pack(len(packed)) + packed
        else:
            yield _UINT32_LE.pack(len(block) | _LZ4_STORED_FLAG) + bytes(block)


def _lz4_blocks_of_level(plain: Buffer, level: int) -> Iterator[bytes]:
    """Yield the blocks of a frame that the library has compressed, without their checksums.

    Only the library's frames have levels.
    """
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(plain))
    frame = bytes(compressor.finish())
    position = len(_LZ4_FRAME_HEADER)
    while (size := _UINT32_LE.unpack_from(frame, position)[0]) != 0:
        end = position + _UINT32_LE.size + (size & ~_LZ4_STORED_FLAG)
        yield frame[position:end]
        position = end + _UINT32_LE.size


def _decompress_lz4(compressed: Buffer, max_size_bytes: int, take_parts: TakeParts) -> Buffer:  # noqa: ARG001 - one shape for all
    return _decompress_growing(cramjam.lz4.decompress_into, compressed, None, max_size_bytes)


def check_framing(codec: int, compressed: Buffer) -> None:
    """Refuse lz4 frames that Java's reader refuses, although this module can decompress them.

    These are frames with linked blocks, several frames, and skippable ones. Content is not read.

    Raises:
        KafkaError: CORRUPT_MESSAGE, with the obstacle for a reader.
    """
    if codec != Codec.LZ4:
        return
    if compressed[:4] != _LZ4_FRAME_HEADER[:4] or len(compressed) < len(_LZ4_FRAME_HEADER):
        raise _corrupt(Codec.LZ4, compressed, "they do not begin with a frame")
    flags = compressed[4]
    if not flags & _LZ4_INDEPENDENT_FLAG:
        raise _corrupt(
            Codec.LZ4,
            compressed,
            "the blocks of the frame are linked, which Java's clients cannot read",
        )
    position = len(_LZ4_FRAME_HEADER) + (8 if flags & _LZ4_SIZE_FLAG else 0)
    checksum_bytes = 4 if flags & _LZ4_BLOCK_CHECKSUM_FLAG else 0
    while position + 4 <= len(compressed):
        (size,) = _UINT32_LE.unpack_from(compressed, position)
        position += 4
        if size == 0:
            position += 4 if flags & _LZ4_CONTENT_CHECKSUM_FLAG else 0
            break
        position += (size & ~_LZ4_STORED_FLAG) + checksum_bytes
    if position < len(compressed):
        raise _corrupt(
            Codec.LZ4, compressed, f"{len(compressed) - position} bytes follow the frame"
        )


# zstd: frames, which may announce their content's size

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def _decompress_zstd(compressed: Buffer, max_size_bytes: int, take_parts: TakeParts) -> Buffer:  # noqa: ARG001 - as above
    return _decompress_growing(
        cramjam.zstd.decompress_into, compressed, _zstd_content_bytes(compressed), max_size_bytes
    )


def _zstd_content_bytes(compressed: Buffer) -> int | None:
    """Return the content size from the first frame's header (RFC 8878, 3.1.1.1), or None."""
    header = bytes(compressed[:18])
    if header[:4] != _ZSTD_MAGIC or len(header) < 18:
        return None
    descriptor = header[4]
    size_flag, is_single_segment = descriptor >> 6, descriptor >> 5 & 1
    if size_flag == 0 and not is_single_segment:
        return None
    position = 5 + (0, 1, 2, 4)[descriptor & 3] + (1 - is_single_segment)
    width_bytes = 1 << size_flag
    content_bytes = int.from_bytes(header[position : position + width_bytes], "little")
    return content_bytes + 256 if size_flag == 1 else content_bytes


# Output of unknown size

_FIRST_GUESS_BYTES = 64 * 1024
_GUESSED_RATIO = 4
_TRUSTED_RATIO = 64
_NO_ROOM = "failed to write whole buffer"


def _decompress_growing(
    decompress_into: Callable[[Buffer, memoryview], int],
    compressed: Buffer,
    announced_bytes: int | None,
    max_size_bytes: int,
) -> Buffer:
    """Decompress into memory of a guessed size, which grows fourfold while it is too small.

    The memory grows up to ``max_size_bytes``. An announced size is only a guess too, because
    further frames may follow, and a few bytes may announce anything. All earlier tries together
    cost at most a third of the last one.
    """
    guess_bytes = max(_GUESSED_RATIO * len(compressed), _FIRST_GUESS_BYTES)
    if announced_bytes is not None and announced_bytes <= _TRUSTED_RATIO * guess_bytes:
        guess_bytes = announced_bytes
    while True:
        plain = _new_room(min(guess_bytes, max_size_bytes))
        try:
            size_bytes = decompress_into(compressed, plain)
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise
            if len(plain) == max_size_bytes:
                raise _too_large(max_size_bytes) from error
            guess_bytes = max(_GUESSED_RATIO * guess_bytes, _FIRST_GUESS_BYTES)
        else:
            return plain[:size_bytes]


_DECOMPRESSORS: dict[int, Callable[[Buffer, int, TakeParts], Buffer]] = {
    Codec.NONE: _copy,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}


# Errors


def _corrupt(codec: Codec, compressed: Buffer, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"{len(compressed)} bytes do not decompress with {codec.name.lower()}: {reason}",
    )


def _too_large(max_size_bytes: int) -> KafkaError:
    text = f"a batch decompresses to more than {max_size_bytes} bytes: send smaller batches"
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
