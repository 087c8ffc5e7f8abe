"""Validation of a producer's record batch before a leader appends it.

The module decides whether a batch may enter a log as it is. It checks magic, size, checksum,
counts, producer fields, timestamps, codec, and keys if the log is compacted. It knows nothing of
logs, later offsets and producer states. Sequence order and transactions are checked elsewhere.

Records are decompressed and checked before they are appended, because a batch that no client can
read stops its consumers and compaction (``checks``). The bytes are appended as they came, unless
the codec must change. No record becomes an object. A single record is walked in place. Checks that
take longer than one turn of the event loop run in steps.

Invariants: the result is one batch (or several of our own) whose magic, counts and checksum are
valid. Bad input raises only ``KafkaError``, with the code of Apache Kafka's broker.
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
from log_service.records.rules import (
    RecordRules,
    RejectedRecordsError,
    SchemaRules,
    UnknownSchemasError,
)

__all__ = [
    "Allowance",
    "NoRoomError",
    "NotOneBatchError",
    "RejectedRecordsError",
    "TurnRoom",
    "UnknownSchemasError",
    "ValidatedBatches",
    "accept_own_batches",
    "validate_for_append",
    "validate_in_steps",
]

if TYPE_CHECKING:
    # Imported for types only, because a client reads records without a broker's configuration.
    from log_service.config.views import LogConfig

_new = tuple.__new__  # faster than a named tuple's own __new__, which is a Python function
_unpack_header = HEADER.unpack_from

_CHECKSUM_SHIFT = 3  # eight bytes of checksum and write take as long as decompressing one byte
_UNITS_PER_COMPRESSED_BYTE = 16

FOREVER_MS = (1 << 63) - 1
NO_REGISTRY = (
    "the topic has schema validation, but this broker has no schema registry to ask: set "
    "confluent.schema.registry.url in the properties of each node and restart it"
)
PRODUCER_CODEC = "producer"
"""The ``compression.type`` of a topic that keeps its producers' codecs."""


class NotOneBatchError(KafkaError):
    """Refusal of bytes that are not exactly one batch of magic 2: INVALID_RECORD.

    It is raised before the configuration of the log is considered.
    """

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, text)


class ValidatedBatches(NamedTuple):
    """Batches that may be appended.

    ``buffer`` is the given buffer, or a new one if the codec had to change. ``batches`` are the
    position and header of each batch. ``max_timestamp`` is the latest of the headers, or -1.
    """

    buffer: bytearray | memoryview
    batches: tuple[tuple[int, BatchHeader], ...]
    size_bytes: int
    max_timestamp: int


def validate_for_append(
    buffer: bytearray | memoryview,
    config: "LogConfig",
    now_ms: int,
    allowance: Allowance | None = None,
) -> ValidatedBatches:
    """Validate a producer's only batch for a partition (Produce v3 and later), and return it.

    ``config`` is the log's. ``allowance`` bounds the decompressed size and the records, and may be
    the ``TurnRoom`` of one turn of the event loop. The log stamps LogAppendTime when it appends the
    batch. If a producer claims to have stamped it, its batch is changed to CreateTime.

    Raises:
        KafkaError: CORRUPT_MESSAGE, no header or a wrong checksum (worth another try);
            MESSAGE_TOO_LARGE; UNSUPPORTED_COMPRESSION_TYPE; INVALID_TIMESTAMP;
            INVALID_PRODUCER_EPOCH, one below 0; INVALID_RECORD for the rest.
        RejectedRecordsError: the same codes, if single records are to blame.
        NoRoomError: the allowance is a ``TurnRoom``, and the check takes longer.
    """
    if allowance is None:
        allowance = Allowance()
    header, target, rules = _begin(buffer, config, now_ms, allowance)
    if (
        header.record_count == 1
        and rules is None
        and target is Codec.NONE
        and not header.attributes & CODEC_MASK
    ):
        # A fast path, because a node with many producers mostly gets batches of one record.
        check_only_record(buffer, HEADER_SIZE, allowance.take_items_alone)
        return _new(ValidatedBatches, (buffer, ((0, header),), len(buffer), header.max_timestamp))
    return finish(_go_on(buffer, header, target, rules, config, allowance))


def validate_in_steps(
    buffer: bytearray | memoryview,
    config: "LogConfig",
    now_ms: int,
    allowance: Allowance,
    schemas: SchemaRules | None = None,
) -> Steps[ValidatedBatches]:
    """Validate as ``validate_for_append`` does, in steps, for threads beside the event loop.

    No step holds the interpreter for long. ``schemas`` tells which schemas are accepted or refused,
    if the log requires registered schemas.

    Raises:
        Exception: as ``validate_for_append``.
        UnknownSchemasError: nothing is wrong, but some schemas are not accepted or refused yet.
    """
    header, target, rules = _begin(buffer, config, now_ms, allowance, schemas)
    validated = yield from _go_on(buffer, header, target, rules, config, allowance, schemas)
    return validated


def _begin(
    buffer: bytearray | memoryview,
    config: "LogConfig",
    now_ms: int,
    allowance: Allowance,
    schemas: SchemaRules | None = None,
) -> tuple[BatchHeader, Codec, RecordRules | None]:
    """Check the header. Return it with the target codec and the rules for the records.

    Raises:
        KafkaError: INVALID_CONFIG, the log requires registered schemas, and this node has no
        registry.
    """
    if config.is_schema_validated and schemas is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, NO_REGISTRY)
    allowance.take_work(len(buffer) >> _CHECKSUM_SHIFT)
    header = _check_header(buffer, config.max_message_bytes)
    if header.attributes & APPEND_TIME_FLAG:
        header = _without_append_time(buffer, header)
    codec = header.compression if header.attributes & CODEC_MASK else Codec.NONE
    target = (
        codec
        if config.compression_type == PRODUCER_CODEC
        else Codec.of_name(config.compression_type)
    )
    return header, target, _rules_of(config, header, now_ms)


def _go_on(  # noqa: PLR0917 - the halves of one function
    buffer: bytearray | memoryview,
    header: BatchHeader,
    target: Codec,
    rules: RecordRules | None,
    config: "LogConfig",
    allowance: Allowance,
    schemas: SchemaRules | None = None,
) -> Steps[ValidatedBatches]:
    """Check the records, and recompress them if their codec is not ``target``."""
    records, codec = memoryview(buffer)[HEADER_SIZE:], header.compression
    plain: Buffer = records
    if codec is not Codec.NONE:
        plain = _open(header, records, allowance)
        yield
    yield from check_in_steps(header, plain, rules, allowance, schemas)
    if target is not codec:
        allowance.take_work(len(plain) * _UNITS_PER_COMPRESSED_BYTE)
        yield
        compressed = compress(target, plain, _level_of(config))
        buffer, header = _recompress(buffer, compressed, target, config.max_message_bytes)
    return _new(ValidatedBatches, (buffer, ((0, header),), len(buffer), header.max_timestamp))


def _rules_of(config: "LogConfig", header: BatchHeader, now_ms: int) -> RecordRules | None:
    """Return the log's rules for a batch's records, or None if the header shows that they are met.

    The header has only the latest timestamp, so a lower bound always needs the records.
    """
    earliest_ms, latest_ms = -FOREVER_MS, FOREVER_MS
    if config.message_timestamp_type == "CreateTime":
        earliest_ms, latest_ms = (
            now_ms - config.message_timestamp_before_max_ms,
            now_ms + config.message_timestamp_after_max_ms,
        )
    if config.is_compacted or earliest_ms > 0 or header.max_timestamp > latest_ms:
        return RecordRules(header.base_timestamp, earliest_ms, latest_ms, config.is_compacted)
    return None


def accept_own_batches(buffer: bytearray | memoryview) -> ValidatedBatches:
    """Return consecutive batches that this process built, for an append without validation.

    Raises:
        CorruptBatch: the bytes are not whole batches.
    """
    batches = tuple(iterate_headers(buffer))
    assert batches, "an append has at least one batch"
    return ValidatedBatches(
        buffer, batches, len(buffer), max(header.max_timestamp for _, header in batches)
    )


# Header


def _check_header(buffer: Buffer, max_batch_size_bytes: int) -> BatchHeader:
    """Check the header of a client's only batch in ``buffer``, and return the header.

    Raises as ``validate_for_append``.
    """
    size_bytes = len(buffer)
    if size_bytes < HEADER_SIZE:
        raise _shape_fault(buffer, max_batch_size_bytes)
    header = _new(BatchHeader, _unpack_header(buffer))
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_delta,
        _,
        _,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = header
    if (
        magic != MAGIC
        or last_delta < 0
        or record_count < 0
        or not length + LOG_OVERHEAD == size_bytes <= max_batch_size_bytes
    ):
        raise _shape_fault(buffer, max_batch_size_bytes)
    if compute_crc(buffer) != crc:
        # Before its fields are trusted, because a damaged batch may be sent again.
        text = f"the checksum of the batch of {record_count} records does not hold"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
    if base_offset != 0 or not 0 < record_count == last_delta + 1 or attributes & CONTROL_FLAG:
        raise _field_fault(header)
    if (
        attributes & TRANSACTIONAL_FLAG
        if producer_id < 0
        else producer_epoch < 0 or base_sequence < 0
    ):
        raise _field_fault(header)
    return header


def _shape_fault(buffer: Buffer, max_batch_size_bytes: int) -> KafkaError:
    """Return the error for bytes that are not one whole batch of an allowed size."""
    if len(buffer) <= MAGIC_POSITION:
        return NotOneBatchError(
            f"{len(buffer)} bytes are not a record batch; a produce request carries one for each"
            " partition"
        )
    if buffer[MAGIC_POSITION] < MAGIC:
        return NotOneBatchError(
            f"records of magic {buffer[MAGIC_POSITION]} are not accepted; magic {MAGIC} exists"
            " since Kafka 0.11"
        )
    try:
        size_bytes = parse_header(buffer).size_bytes
    except CorruptBatch as error:  # sending it again helps unless it was built like this
        return KafkaError(ErrorCode.INVALID_RECORD, str(error)) if _is_whole(buffer) else error
    if size_bytes > max_batch_size_bytes:
        return _too_large(size_bytes, max_batch_size_bytes)
    if size_bytes > len(buffer):
        return NotOneBatchError(f"the batch announces {size_bytes} bytes, {len(buffer)} are there")
    text = (
        f"{len(buffer) - size_bytes} bytes follow the batch; a produce request carries one batch"
        " for each partition"
    )
    return NotOneBatchError(text)


def _is_whole(buffer: Buffer) -> bool:
    """Return whether ``buffer`` is a batch with a valid checksum, whatever its header says.

    Such bytes were not damaged on their way.
    """
    if len(buffer) < HEADER_SIZE or buffer[MAGIC_POSITION] != MAGIC:
        return False
    header = _new(BatchHeader, _unpack_header(buffer))
    return header.size_bytes == len(buffer) and header.crc == compute_crc(buffer)


def _field_fault(header: BatchHeader) -> KafkaError:
    """Return the error for a header with wrong fields."""
    code = ErrorCode.INVALID_RECORD
    if header.base_offset != 0:
        text = f"the base offset of a producer's batch is 0, this one has {header.base_offset}"
    elif header.record_count != header.last_offset_delta + 1 or header.record_count <= 0:
        text = (
            f"the batch announces {header.record_count} records and a last offset delta of"
            f" {header.last_offset_delta}"
        )
    elif header.is_control:
        text = "producers must not write control records"
    elif header.producer_id < 0:
        text = "a transactional batch needs a producer id"
    else:
        if header.producer_epoch < 0 <= header.base_sequence:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        text = (
            f"producer id {header.producer_id} comes with epoch {header.producer_epoch} and"
            f" sequence {header.base_sequence}"
        )
    return KafkaError(code, text)


def _without_append_time(buffer: bytearray | memoryview, header: BatchHeader) -> BatchHeader:
    """Clear the flag that the timestamps are LogAppendTime, in place.

    Return the new header.
    """
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
        # The checksum is valid, so sending the same bytes again cannot help.
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
    return plain


def _level_of(config: "LogConfig") -> int | None:
    """Return the topic's configured compression level for its codec, or None for the default."""
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    level = levels.get(config.compression_type)
    return None if config.compression_type == "gzip" and level == -1 else level


def _recompress(
    buffer: Buffer, compressed: bytes, target: Codec, max_batch_size_bytes: int
) -> tuple[bytearray, BatchHeader]:
    batch = replace_records(buffer, target, compressed)
    if len(batch) > max_batch_size_bytes:
        raise _too_large(len(batch), max_batch_size_bytes)
    return batch, parse_header(batch)


def _too_large(size_bytes: int, max_batch_size_bytes: int) -> KafkaError:
    text = (
        f"a batch of {size_bytes} bytes is larger than the topic's max.message.bytes,"
        f" {max_batch_size_bytes}"
    )
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
