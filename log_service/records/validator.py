"""What a leader looks at before it appends a producer's record batch.

Decides whether a batch may enter a log as it is: magic, size, checksum, counts, producer fields, timestamps, keys where the log is
compacted, codec. Knows nothing of logs, offsets to come and producers' states: whether a sequence is in order, and whether transactions are
allowed, is decided where that is known.

Records are decompressed and checked before they are appended, because a batch that no client can read stops its consumers
and compaction (``checks``). The bytes are appended as they came, unless the codec has to change. No record becomes an object. A single
record is walked in place. What takes longer than one turn of the event loop may is checked in steps.

Invariants: what is returned is one batch (or, of our own, several) whose magic, counts and checksum hold. Bad input raises ``KafkaError``
with the code of Apache Kafka's broker, and nothing else.
"""

from typing import TYPE_CHECKING, NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import Steps, finish
from log_service.common.types import Buffer
from log_service.records.batch import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    CorruptBatch,
    compute_crc,
    iterate_headers,
    parse_header,
    replace_records,
)
from log_service.records.checks import check_in_steps
from log_service.records.compression import Codec, check_framing, compress
from log_service.records.limits import Allowance, NoRoomError, TurnRoom
from log_service.records.record import check_only_record
from log_service.records.rules import RecordRules, RejectedRecordsError

__all__ = [
    "Allowance",
    "NoRoomError",
    "NotOneBatchError",
    "RejectedRecordsError",
    "TurnRoom",
    "ValidatedBatches",
    "accept_own_batches",
    "validate_for_append",
    "validate_in_steps",
]

if TYPE_CHECKING:
    from log_service.config.views import LogConfig  # a client reads records without a broker's configuration

_new = tuple.__new__  # a named tuple's own is a function of Python's
_unpack_header = HEADER.unpack_from

_CHECKSUM_SHIFT = 3  # eight bytes of a checksum, and of a write, take as long as one to decompress
_UNITS_PER_COMPRESSED_BYTE = 16

FOREVER_MS = (1 << 63) - 1
PRODUCER_CODEC = "producer"
"""The ``compression.type`` of a topic that keeps whatever codec its producers use."""


class NotOneBatchError(KafkaError):
    """What a partition was sent is not one batch of this magic: INVALID_RECORD, before anything of the log is looked at."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, text)


class ValidatedBatches(NamedTuple):
    """Batches that may be appended. ``buffer`` is what was handed in, or a new buffer where the codec had to change.

    ``batches`` are the position and the header of each. ``max_timestamp`` is the latest of the headers, -1 for none.
    """

    buffer: bytearray | memoryview
    batches: tuple[tuple[int, BatchHeader], ...]
    size_bytes: int
    max_timestamp: int


def validate_for_append(
    buffer: bytearray | memoryview, config: "LogConfig", now_ms: int, allowance: Allowance | None = None
) -> ValidatedBatches:
    """Return the one batch that a producer sent for a partition (Produce v3 and later), ready to be stamped and appended.

    ``config`` is the log's; ``allowance`` bounds what the batch may open to, and may be the room of one turn of the event loop. A timestamp
    of LogAppendTime is stamped when the batch is appended; a producer that claims to have stamped one is not believed, its batch says
    CreateTime afterwards.

    Raises:
        KafkaError: CORRUPT_MESSAGE, no header or a checksum that does not hold (worth another try); MESSAGE_TOO_LARGE;
            UNSUPPORTED_COMPRESSION_TYPE; INVALID_TIMESTAMP; INVALID_PRODUCER_EPOCH, one below 0; INVALID_RECORD for the rest.
        RejectedRecordsError: the same codes, where single records are to blame.
        NoRoomError: the allowance is a ``TurnRoom``, and the check takes longer.
    """
    if allowance is None:
        allowance = Allowance()
    header, target, rules = _begin(buffer, config, now_ms, allowance)
    if header.record_count == 1 and rules is None and target is Codec.NONE and not header.attributes & CODEC_MASK:
        check_only_record(buffer, HEADER_SIZE)  # most appends of a node that many producers write to
        return _new(ValidatedBatches, (buffer, ((0, header),), len(buffer), header.max_timestamp))
    return finish(_go_on(buffer, header, target, rules, config, allowance))


def validate_in_steps(buffer: bytearray | memoryview, config: "LogConfig", now_ms: int, allowance: Allowance) -> Steps[ValidatedBatches]:
    """Do what ``validate_for_append`` does in steps, for threads beside the event loop: none holds the interpreter for long.

    Raises:
        Exception: as ``validate_for_append``.
    """
    header, target, rules = _begin(buffer, config, now_ms, allowance)
    validated = yield from _go_on(buffer, header, target, rules, config, allowance)
    return validated


def _begin(
    buffer: bytearray | memoryview, config: "LogConfig", now_ms: int, allowance: Allowance
) -> tuple[BatchHeader, Codec, RecordRules | None]:
    """Return the checked header, the codec that the batch is to have, and what its records have to be looked at for."""
    allowance.take_work(len(buffer) >> _CHECKSUM_SHIFT)
    header = _check_header(buffer, config.max_message_bytes)
    if header.attributes & APPEND_TIME_FLAG:
        header = _without_append_time(buffer, header)
    codec = header.compression if header.attributes & CODEC_MASK else Codec.NONE
    target = codec if config.compression_type == PRODUCER_CODEC else Codec.of_name(config.compression_type)
    return header, target, _rules_of(config, header, now_ms)


def _go_on(  # noqa: PLR0917 - the halves of one function
    buffer: bytearray | memoryview, header: BatchHeader, target: Codec, rules: RecordRules | None, config: "LogConfig", allowance: Allowance
) -> Steps[ValidatedBatches]:
    """Check the records, and change their codec if it is not ``target``."""
    records, codec = memoryview(buffer)[HEADER_SIZE:], header.compression
    plain: Buffer = records
    if codec is not Codec.NONE:
        plain = _open(header, records, allowance)
        yield
    yield from check_in_steps(header, plain, rules, allowance)
    if target is not codec:
        allowance.take_work(len(plain) * _UNITS_PER_COMPRESSED_BYTE)
        yield
        compressed = compress(target, plain, _level_of(config))
        buffer, header = _recompress(buffer, compressed, target, config.max_message_bytes)
    return _new(ValidatedBatches, (buffer, ((0, header),), len(buffer), header.max_timestamp))


def _rules_of(config: "LogConfig", header: BatchHeader, now_ms: int) -> RecordRules | None:
    """Return what the log asks of single records of a batch, None where its header shows that they are as the log wants them.

    A header knows the latest timestamp alone.
    """
    earliest_ms, latest_ms = -FOREVER_MS, FOREVER_MS
    if config.message_timestamp_type == "CreateTime":
        earliest_ms, latest_ms = now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms
    if config.is_compacted or earliest_ms > 0 or header.max_timestamp > latest_ms:
        return RecordRules(header.base_timestamp, earliest_ms, latest_ms, config.is_compacted)
    return None


def accept_own_batches(buffer: bytearray | memoryview) -> ValidatedBatches:
    """Return batches that this process built, one or more back to back, for an append that has nothing to prove.

    Raises:
        CorruptBatch: they are not whole batches.
    """
    batches = tuple(iterate_headers(buffer))
    assert batches, "an append has at least one batch"
    return ValidatedBatches(buffer, batches, len(buffer), max(header.max_timestamp for _, header in batches))


# Header


def _check_header(buffer: Buffer, max_batch_size_bytes: int) -> BatchHeader:
    """Return the header of the only batch in ``buffer``, which has only what a client may put into it."""
    size_bytes = len(buffer)
    if size_bytes < HEADER_SIZE:
        raise _shape_fault(buffer, max_batch_size_bytes)
    header = _new(BatchHeader, _unpack_header(buffer))
    (base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer_id, producer_epoch, base_sequence, record_count) = header
    if magic != MAGIC or last_delta < 0 or record_count < 0 or not length + LOG_OVERHEAD == size_bytes <= max_batch_size_bytes:
        raise _shape_fault(buffer, max_batch_size_bytes)
    if compute_crc(buffer) != crc:  # before anything it covers is believed: what was damaged on its way may be sent again
        text = f"the checksum of the batch of {record_count} records does not hold"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
    if base_offset != 0 or not 0 < record_count == last_delta + 1 or attributes & CONTROL_FLAG:
        raise _field_fault(header)
    if attributes & TRANSACTIONAL_FLAG if producer_id < 0 else producer_epoch < 0 or base_sequence < 0:
        raise _field_fault(header)
    return header


def _shape_fault(buffer: Buffer, max_batch_size_bytes: int) -> KafkaError:
    """Return why ``buffer`` is not one whole batch of a size that is allowed."""
    if len(buffer) <= MAGIC_POSITION:
        return NotOneBatchError(f"{len(buffer)} bytes are no record batch; a produce request carries one for each partition")
    if buffer[MAGIC_POSITION] < MAGIC:
        return NotOneBatchError(f"records of magic {buffer[MAGIC_POSITION]} are not accepted; magic {MAGIC} exists since Kafka 0.11")
    try:
        size_bytes = parse_header(buffer).size_bytes
    except CorruptBatch as error:  # sending it again helps unless it was made like this
        return KafkaError(ErrorCode.INVALID_RECORD, str(error)) if _is_whole(buffer) else error
    if size_bytes > max_batch_size_bytes:
        return _too_large(size_bytes, max_batch_size_bytes)
    if size_bytes > len(buffer):
        return NotOneBatchError(f"the batch announces {size_bytes} bytes, {len(buffer)} are there")
    text = f"{len(buffer) - size_bytes} bytes follow the batch; a produce request carries one batch for each partition"
    return NotOneBatchError(text)


def _is_whole(buffer: Buffer) -> bool:
    """Whether a batch of this magic came as it was made, whatever its header says of its records."""
    if len(buffer) < HEADER_SIZE or buffer[MAGIC_POSITION] != MAGIC:
        return False
    header = _new(BatchHeader, _unpack_header(buffer))
    return header.size_bytes == len(buffer) and header.crc == compute_crc(buffer)


def _field_fault(header: BatchHeader) -> KafkaError:
    """Return what is wrong with a header whose fields are not right."""
    code = ErrorCode.INVALID_RECORD
    if header.base_offset != 0:
        text = f"the base offset of a producer's batch is 0, this one has {header.base_offset}"
    elif header.record_count != header.last_offset_delta + 1 or header.record_count <= 0:
        text = f"the batch announces {header.record_count} records and a last offset delta of {header.last_offset_delta}"
    elif header.is_control:
        text = "producers must not write control records"
    elif header.producer_id < 0:
        text = "a transactional batch needs a producer id"
    else:
        if header.producer_epoch < 0 <= header.base_sequence:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        text = f"producer id {header.producer_id} comes with epoch {header.producer_epoch} and sequence {header.base_sequence}"
    return KafkaError(code, text)


def _without_append_time(buffer: bytearray | memoryview, header: BatchHeader) -> BatchHeader:
    """Take the claim of a stamped time out of the batch, in place."""
    changed = header._replace(attributes=header.attributes & ~APPEND_TIME_FLAG)
    HEADER.pack_into(buffer, 0, *changed)
    CRC.pack_into(buffer, CRC_POSITION, compute_crc(buffer))
    return changed


# Records


def _open(header: BatchHeader, compressed: memoryview, allowance: Allowance) -> Buffer:
    try:
        plain = allowance.open(header.codec, compressed)
        check_framing(header.codec, compressed)
    except KafkaError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
        # The checksum holds, so that sending the same bytes again cannot help.
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
    return plain


def _level_of(config: "LogConfig") -> int | None:
    """Return the level that the topic's codec is used with here; None is the library's own."""
    levels = {"gzip": config.compression_gzip_level, "lz4": config.compression_lz4_level, "zstd": config.compression_zstd_level}
    level = levels.get(config.compression_type)
    return None if config.compression_type == "gzip" and level == -1 else level


def _recompress(buffer: Buffer, compressed: bytes, target: Codec, max_batch_size_bytes: int) -> tuple[bytearray, BatchHeader]:
    batch = replace_records(buffer, target, compressed)
    if len(batch) > max_batch_size_bytes:
        raise _too_large(len(batch), max_batch_size_bytes)
    return batch, parse_header(batch)


def _too_large(size_bytes: int, max_batch_size_bytes: int) -> KafkaError:
    text = f"a batch of {size_bytes} bytes is larger than the topic's max.message.bytes, {max_batch_size_bytes}"
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
