"""Checks which schemas many records name, for all of them at once with numpy.

``schema_names`` does the same one by one, and has the rules. The module is imported only if many
records are checked, because it imports numpy.

Invariants: the results equal those of ``schema_names.check_schemas_one_by_one``. If no header names
a schema, the work in Python depends on the number of schemas, not of records.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import Steps
from log_service.records.fields import Fields, Spans
from log_service.records.record import ITEMS_PER_STEP
from log_service.records.rules import MAX_RECORD_ERRORS, RecordFaults, SchemaName
from log_service.records.schema_names import (
    GUID_END,
    MAGIC_GUID,
    MAGIC_ID,
    PREFIX,
    check_schema_name,
    header_name,
    header_value,
    nameless,
    read_name,
    refusal_of,
)
from log_service.records.varint_arrays import Integers, Octets

MAX_SCHEMAS = 1_000
"""Maximum number of different ids among the records of one step."""
MAX_COMPARED_BYTES = 256
"""Headers that are longer are read record by record, even if all records have the same."""


def check_schemas(found: Fields, first: int, faults: RecordFaults) -> Steps[None]:
    """Check the schemas that well-formed records name.

    ``first`` is the index of the first record in its batch.

    Raises:
        KafkaError: INVALID_RECORD, the records name too many schemas.
    """
    schemas = faults.schemas
    assert schemas is not None, "only a log that asks for schemas checks them"
    faults.allowance.take_items(len(found.offsets))
    has_headers = bool(np.count_nonzero(found.header_counts))
    for is_key in schemas.parts:
        spans = found.keys if is_key else found.values
        is_left = ~spans.is_null
        if has_headers:
            yield from _check_headers(found, spans, first, faults, is_left, is_key=is_key)
        places = None
        if np.count_nonzero(is_left) != len(is_left):
            places = np.flatnonzero(is_left)
            spans = Spans(spans.starts[places], spans.ends[places], spans.is_null[places])
        if len(spans.starts):
            _check_prefixes(found, spans, places, first, faults, is_key=is_key)


def _check_prefixes(
    found: Fields,
    spans: Spans,
    places: Integers | None,
    first: int,
    faults: RecordFaults,
    *,
    is_key: bool,
) -> None:
    """Check the schemas that the first bytes of keys or values name.

    ``places`` selects the records. None means all records.
    """
    octets, starts, sizes = found.octets, spans.starts, spans.ends - spans.starts
    is_id = octets.take(starts) == MAGIC_ID  # behind an empty value is its count of headers
    is_id &= sizes >= PREFIX.size
    if np.count_nonzero(is_id) != len(starts):
        places = np.arange(len(starts)) if places is None else places
        is_guid = (octets.take(starts) == MAGIC_GUID) & (sizes >= GUID_END)
        guids = zip(places[is_guid].tolist(), starts[is_guid].tolist(), strict=True)
        for place, start in guids:
            faults.allowance.take_items_alone(1)
            name = read_name(memoryview(found.body)[start : start + GUID_END])
            check_schema_name(faults, first + place, name, is_key=is_key)
        _refuse(faults, first + places[~(is_id | is_guid)], nameless(is_key=is_key))
        places, starts = places[is_id], starts[is_id]
    if len(starts):
        _check_ids(
            _words(octets)[starts + 1].astype(np.int64), places, first, faults, is_key=is_key
        )


def _words(octets: Octets) -> NDArray[np.uint32]:
    """Return the four bytes from each position on as a big-endian number."""
    return np.ndarray((len(octets) - 3,), ">u4", octets.data, strides=(1,))


def _check_ids(
    ids: Integers, places: Integers | None, first: int, faults: RecordFaults, *, is_key: bool
) -> None:
    """Check each id once, for all records that name it."""
    schemas = faults.schemas
    assert schemas is not None, "only a log that asks for schemas checks them"
    is_same = np.count_nonzero(ids == ids[0]) == len(ids)
    different = [int(ids[0])] if is_same else np.unique(ids).tolist()
    if len(different) > MAX_SCHEMAS:
        text = f"a batch names {len(different)} schemas; at most {MAX_SCHEMAS} are looked up"
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    for schema_id in different:
        reason = schemas.decision(schema_id, is_key=is_key)
        if reason is None:
            faults.want(schema_id, is_key=is_key)
        elif reason:
            wrong = np.flatnonzero(ids == schema_id)
            _refuse(faults, first + (wrong if places is None else places[wrong]), reason)


def _refuse(faults: RecordFaults, indexes: Integers, reason: str) -> None:
    """Add the records at ``indexes`` to ``faults`` with one reason."""
    room = max(MAX_RECORD_ERRORS - faults.count, 0)
    for index in indexes[:room].tolist():
        faults.add(index, ErrorCode.INVALID_RECORD, reason)
    faults.count += len(indexes[room:])


# Headers


def _check_headers(
    found: Fields,
    spans: Spans,
    first: int,
    faults: RecordFaults,
    is_left: NDArray[np.bool_],
    *,
    is_key: bool,
) -> Steps[None]:
    """Check the schemas that headers name.

    Clear ``is_left`` for the records with such a header, whose prefixes then count for nothing.
    """
    start, end = int(found.header_positions[0]), int(found.ends[-1])
    if header_name(is_key=is_key).encode() not in bytes(memoryview(found.body)[start:end]):
        return
    places = np.flatnonzero((found.header_counts > 0) & ~spans.is_null)
    if not len(places):
        return
    same = _same_headers(found, places)
    if same is not None:
        named = header_value(same, is_key=is_key, index=first)
        if named is not None:
            is_left[places] = False
            _check_all(faults, first + places, read_name(named), is_key=is_key)
        return
    for step in range(0, len(places), ITEMS_PER_STEP):
        if step:
            yield
        faults.allowance.take_items_alone(
            int(found.header_counts[places[step : step + ITEMS_PER_STEP]].sum())
        )
        for place, raw in _headers_of(found, places[step : step + ITEMS_PER_STEP]):
            named = header_value(raw, is_key=is_key, index=first + place)
            if named is not None:
                is_left[place] = False
                check_schema_name(faults, first + place, read_name(named), is_key=is_key)


def _same_headers(found: Fields, places: Integers) -> bytes | None:
    """Return the headers that all records at ``places`` share.

    Return None if the headers differ or are too long to compare.
    """
    starts = found.header_positions[places]
    sizes = found.ends[places] - starts
    size = int(sizes[0])
    if size > MAX_COMPARED_BYTES or np.count_nonzero(sizes != size):
        return None
    columns = found.octets
    for step in range(size):
        column = columns[starts + step]
        if np.count_nonzero(column != column[0]):
            return None
    return bytes(memoryview(found.body)[int(starts[0]) : int(starts[0]) + size])


def _headers_of(found: Fields, places: Integers) -> Iterator[tuple[int, bytes]]:
    body = memoryview(found.body)
    starts, ends = found.header_positions[places], found.ends[places]
    for place, start, end in zip(places.tolist(), starts.tolist(), ends.tolist(), strict=True):
        yield place, bytes(body[start:end])


def _check_all(
    faults: RecordFaults, indexes: Integers, name: SchemaName | None, *, is_key: bool
) -> None:
    """Check whether the records at ``indexes`` may name the schema ``name``."""
    reason = refusal_of(faults, name, is_key=is_key)
    if reason:
        _refuse(faults, indexes, reason)
