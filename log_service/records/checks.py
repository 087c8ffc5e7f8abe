"""Checks that readers can read the records of a producer's batch, before a leader appends it.

The checks find wrong counts, lengths and offset deltas of records. ``rules`` has further demands of
a log. Apache Kafka's broker makes the same checks (``LogValidator``), except for offset deltas of
uncompressed records, which may repeat there. Many records are checked at once if numpy is
installed, and few one by one. Both ways refuse the same bytes.

Invariant: a check is a generator whose steps take a few milliseconds each, whatever the bytes. A
``limits.Allowance`` bounds its total cost.
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import Steps, finish
from log_service.common.types import Buffer
from log_service.records.batch import HEADER_SIZE, BatchHeader
from log_service.records.compression import check_framing, open_compressed
from log_service.records.limits import (
    FEW_NUMBER_BYTES,
    MAX_BATCH_RECORDS,
    MIN_COUNT_AT_ONCE,
    MIN_COUNT_AT_ONCE_WITH_SCHEMAS,
    UNITS_PER_CHECK_AT_ONCE,
    UNITS_PER_FEW_NUMBER_BYTES,
    UNITS_PER_NUMBER_BYTE,
    Allowance,
)
from log_service.records.record import (
    ITEMS_PER_STEP,
    MAX_RECORD_OVERHEAD_BYTES,
    MIN_RECORD_BYTES,
    malformed,
    read_records,
    skip_headers,
    skip_in_steps,
)
from log_service.records.rules import RecordFaults, RecordRules, SchemaRules, misplaced
from log_service.records.varint import INT64_VARINT_BYTES, continue_varint, is_null, read_varint

MAX_NAMED_COUNT = 4_096
"""Above this count the malformed record is not searched for, because that takes a loop."""

_NULL = 1  # the varint of -1


@cache
def checks_at_once() -> ModuleType | None:
    """Return the module that checks many records at once, or None without numpy.

    The first call imports numpy.
    """
    try:
        from log_service.records import (  # noqa: PLC0415 - a broker does without numpy, more slowly
            fields,
        )
    except ImportError:
        return None
    return fields


@cache
def _schemas_of_few() -> Callable[[Buffer, int, RecordFaults], Steps[None]]:
    """Return the function that checks the schemas of few records one by one.

    Its module is imported only when a topic requires registered schemas.
    """
    from log_service.records import schema_names  # noqa: PLC0415 - see above

    return schema_names.check_schemas_one_by_one


@cache
def _schemas_of_many() -> Callable[..., Steps[None]]:
    """Return the function that checks the schemas of many records at once."""
    from log_service.records import schema_columns  # noqa: PLC0415 - as ``_schemas_of_few``

    return schema_columns.check_schemas


def check_records(header: BatchHeader, plain: Buffer, rules: RecordRules | None = None) -> None:
    """Check the records of a batch without pauses. See ``check_in_steps``."""
    finish(check_in_steps(header, plain, rules, Allowance()))


def check_in_steps(
    header: BatchHeader,
    plain: Buffer,
    rules: RecordRules | None,
    allowance: Allowance,
    schemas: SchemaRules | None = None,
) -> Steps[None]:
    """Check the records of a batch whose header was checked.

    ``plain`` holds all records, decompressed.

    Raises:
        KafkaError: INVALID_RECORD, names the record and its fault; MESSAGE_TOO_LARGE, there are
            more records or headers than may be checked.
        RejectedRecordsError: records break the rules.
        UnknownSchemasError: the records break no rule, but name schemas that ``schemas`` neither
            accepts nor refuses yet.
    """
    count = header.record_count
    if count * MIN_RECORD_BYTES > len(plain):
        text = f"the batch announces {count} records in {len(plain)} bytes"
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    if count > MAX_BATCH_RECORDS:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {count} records, more than {MAX_BATCH_RECORDS}: send smaller batches",
        )
    most_number_bytes = (
        min(len(plain), count * MAX_RECORD_OVERHEAD_BYTES) - count * MIN_RECORD_BYTES
    )
    allowance.take_work(
        most_number_bytes * UNITS_PER_NUMBER_BYTE
        + min(most_number_bytes, FEW_NUMBER_BYTES) * UNITS_PER_FEW_NUMBER_BYTES
    )
    faults = RecordFaults(rules, allowance, schemas)
    least = MIN_COUNT_AT_ONCE if schemas is None else MIN_COUNT_AT_ONCE_WITH_SCHEMAS
    fields = checks_at_once() if count >= least else None
    if fields is None:
        allowance.take_items_alone(count)
        yield from _check_each(plain, count, faults)
        if schemas is not None:
            yield from _schemas_of_few()(plain, count, faults)
    else:
        allowance.take_work(UNITS_PER_CHECK_AT_ONCE)
        allowance.take_items(count)
        try:
            yield from fields.check_fields(
                header, plain, faults, None if schemas is None else _schemas_of_many()
            )
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_RECORD and count <= MAX_NAMED_COUNT:
                repeated = allowance.for_repetition()
                repeated.take_items_alone(count)
                yield from _check_each(plain, count, RecordFaults(rules, repeated))
            raise
    faults.raise_if_any()


def check_stored(header: BatchHeader, batch: Buffer) -> None:
    """Check that readers can read the records of a batch in a log.

    ``batch`` holds the batch and nothing else. Compaction may have removed records from it. The
    duration grows with the size of the batch.

    Raises:
        KafkaError: INVALID_RECORD or CORRUPT_MESSAGE, with the fault; MESSAGE_TOO_LARGE, the batch
            is larger than readers accept; UNSUPPORTED_COMPRESSION_TYPE.
    """
    section = memoryview(batch)[HEADER_SIZE:]
    plain = open_compressed(header.codec, section)
    check_framing(header.codec, section)
    if header.record_count == header.last_offset_delta + 1 <= MAX_BATCH_RECORDS:
        check_records(header, plain)
        return
    last_delta = -1
    for record in read_records(bytes(plain), header.record_count, base_offset=0, base_timestamp=0):
        if not last_delta < record.offset <= header.last_offset_delta:
            text = (
                f"offset delta {record.offset} comes after {last_delta} in a batch of"
                f" {header.last_offset_delta + 1} offsets"
            )
            raise KafkaError(ErrorCode.INVALID_RECORD, text)
        last_delta = record.offset


def _check_each(plain: Buffer, count: int, faults: RecordFaults) -> Steps[None]:
    """Check records one by one."""
    position = index = 0
    while index < count:
        if index:
            yield
        stop = min(index + ITEMS_PER_STEP, count)
        position, index, unread = _check_some(plain, position, index, stop, faults)
        if unread is not None:
            yield from skip_in_steps(plain, position, unread.end, index - 1, unread.header_count)
            position = unread.end
    if position != len(plain):
        text = (
            f"{len(plain) - position} bytes are left after the {count} records that the batch"
            " announces"
        )
        raise KafkaError(ErrorCode.INVALID_RECORD, text)


class _Unread(NamedTuple):
    """The unchecked headers of a record with very many headers, and the record's end."""

    end: int
    header_count: int


def _check_some(  # noqa: PLR0912, PLR0915 - each batch of a client comes here: short varints are read in place
    plain: Buffer, position: int, first: int, stop: int, faults: RecordFaults
) -> tuple[int, int, _Unread | None]:
    """Check records from index ``first`` on.

    Return (end of the last record, index after it, its unchecked headers). The check ends at
    ``stop``, or after many headers. It reads varints as ``record.read_records`` does.

    Raises:
        KafkaError: INVALID_RECORD; MESSAGE_TOO_LARGE, there are more headers than may be checked.
    """
    rules, index, headers_left = faults.rules, first, ITEMS_PER_STEP
    try:
        for index in range(first, stop):
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            end = position + (number >> 1 ^ -(number & 1))
            position += 1  # attributes, of which no bit has a meaning
            delta, position = plain[position], position + 1  # timestamp delta
            if delta > 0x7F:
                delta, position = delta + (plain[position] << 7) - 0x80, position + 1
                if delta > 0x3FFF:
                    delta, position = continue_varint(plain, position, delta, INT64_VARINT_BYTES)
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            if number != index << 1:
                faults.add(index, *misplaced(index, number >> 1 ^ -(number & 1)))
            elif rules is not None:
                is_keyless = plain[position] & 0x7F == _NULL and is_null(plain, position)
                wrong = rules.fault_of(
                    rules.base_timestamp + (delta >> 1 ^ -(delta & 1)), is_keyless=is_keyless
                )
                if wrong is not None:
                    faults.add(index, *wrong)
            for _ in (0, 1):  # key and value
                number, position = plain[position], position + 1
                if number > 0x7F:
                    number, position = number + (plain[position] << 7) - 0x80, position + 1
                    if number > 0x3FFF:
                        number, position = continue_varint(plain, position, number)
                if not number & 1:
                    position += number >> 1
                elif number != _NULL:
                    raise malformed(index, "the length of its key or value is negative")
            if plain[position]:
                count, position = read_varint(plain, position)
                if not 0 <= count <= max(end - position, 0) // 2:
                    raise malformed(index, f"it announces {count} headers")
                faults.allowance.take_items_alone(count)
                if count > ITEMS_PER_STEP:
                    return position, index + 1, _Unread(end, count)
                position = skip_headers(plain, position, end, index, count)
                headers_left -= count
            else:
                position += 1
            if position != end:
                raise malformed(
                    index, f"its fields take {position - end} bytes more than its length says"
                )
            if headers_left < 0:
                break
    except IndexError:
        raise malformed(index, "the batch ends inside it") from None
    return position, index + 1, None
