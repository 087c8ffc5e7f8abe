"""Batches whose keys and values name schemas, checked one by one and all at once.

Both ways give the same verdicts, whatever the mixture of prefixes, headers and nulls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import finish
from log_service.config.views import LogConfig
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.limits import MIN_COUNT_AT_ONCE
from log_service.records.record import NewRecord, RecordHeader
from log_service.records.rules import (
    MAX_RECORD_ERRORS,
    MAX_WANTED_SCHEMAS,
    NamedSchema,
    RejectedRecordsError,
    SchemaName,
    UnknownSchemasError,
)
from log_service.records.schema_columns import MAX_SCHEMAS
from log_service.records.schema_names import KEY_HEADER, PREFIX, VALUE_HEADER
from log_service.records.validator import Allowance, validate_for_append, validate_in_steps

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(is_value_schema_validated=True)
GUID = UUID(int=77).bytes
KNOWN, WRONG, UNKNOWN = 5, 6, 7

Content = tuple[bytes | None, bytes | None, tuple[RecordHeader, ...]]


@dataclass(kw_only=True)
class Verdicts:
    """Schema 5 and a guid are accepted, 6 is refused, all others are unknown."""

    parts: tuple[bool, ...] = (False,)
    known: Mapping[SchemaName, str] = field(
        default_factory=lambda: {KNOWN: "", GUID: "", WRONG: "6 is wrong"}
    )
    asked_count: int = 0

    def decision(self, name: SchemaName, *, is_key: bool) -> str | None:
        self.asked_count += 1
        assert is_key in self.parts
        return self.known.get(name)


def named(schema_id: int, payload: bytes = b"payload") -> bytes:
    return PREFIX.pack(0, schema_id) + payload


def by_value(*values: bytes | None) -> list[Content]:
    return [(b"k", value, ()) for value in values]


def check(
    contents: Sequence[Content],
    verdicts: Verdicts | None = None,
    codec: Codec = Codec.NONE,
    config: LogConfig = CONFIG,
) -> None:
    batch = build_batch(
        [NewRecord(NOW_MS, key, value, headers) for key, value, headers in contents], codec=codec
    )
    finish(validate_in_steps(bytearray(batch), config, NOW_MS, Allowance(), verdicts or Verdicts()))


def errors_of(contents: Sequence[Content], verdicts: Verdicts | None = None) -> dict[int, str]:
    with pytest.raises(RejectedRecordsError) as refused:
        check(contents, verdicts)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    return dict(refused.value.record_errors)


SIZES = pytest.mark.parametrize("count", [1, 3, MIN_COUNT_AT_ONCE + 40], ids=["one", "few", "many"])
CODECS = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())


@SIZES
@CODECS
def test_records_with_an_accepted_schema_pass_in_every_codec(count: int, codec: Codec) -> None:
    check(by_value(*[named(KNOWN)] * count), codec=codec)


@SIZES
def test_a_null_needs_no_schema(count: int) -> None:
    check(by_value(*[None] * count))
    check(by_value(*[None, named(KNOWN)] * count))


@SIZES
@pytest.mark.parametrize(
    "value",
    [b"", b"\0", b"\0\0\0\0", b"plain text", b"\1" + GUID[:-1], b"\2" + bytes(20)],
    ids=repr,
)
def test_a_value_that_names_no_schema_is_refused_with_its_index(count: int, value: bytes) -> None:
    errors = errors_of(by_value(*[named(KNOWN)] * count, value, named(KNOWN)))
    assert list(errors) == [count]
    assert "its value names no schema" in errors[count]
    assert VALUE_HEADER in errors[count]


@SIZES
def test_a_schema_that_is_refused_is_told_for_each_record(count: int) -> None:
    errors = errors_of(by_value(*[named(WRONG), named(KNOWN)] * count))
    wrong = range(0, 2 * count, 2)[:MAX_RECORD_ERRORS]
    assert errors == dict.fromkeys(wrong, "6 is wrong")


@SIZES
def test_unknown_schemas_are_named_if_nothing_else_is_wrong(count: int) -> None:
    with pytest.raises(UnknownSchemasError) as unknown:
        check(by_value(*[named(KNOWN), named(UNKNOWN)] * count))
    assert unknown.value.names == (NamedSchema(is_key=False, name=UNKNOWN),)
    assert unknown.value.is_retriable
    assert list(errors_of(by_value(*[named(UNKNOWN)] * count, named(WRONG)))) == [count]


@SIZES
def test_one_check_names_a_bounded_number_of_unknown_schemas(count: int) -> None:
    with pytest.raises(UnknownSchemasError) as unknown:
        check(by_value(*[named(1_000 + index) for index in range(count + 50)]))
    assert len(unknown.value.names) == MAX_WANTED_SCHEMAS


def test_a_batch_of_very_many_schemas_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        check(by_value(*[named(1_000 + index) for index in range(MAX_SCHEMAS + 1)]))
    assert refused.value.code is ErrorCode.INVALID_RECORD


@SIZES
@pytest.mark.parametrize("others", [0, 3], ids=["alone", "among others"])
def test_a_header_names_the_schema_of_a_bare_payload(count: int, others: int) -> None:
    """The header counts, also where the payload looks like a prefix."""
    headers = (
        *[("trace", bytes([each])) for each in range(others)],
        (VALUE_HEADER, b"\1" + GUID + b"\0"),
    )
    check([(None, payload, headers) for payload in [b"bare", named(WRONG)] * count])


@SIZES
def test_of_several_headers_the_last_counts_and_each_record_has_its_own(count: int) -> None:
    guid, wrong = (VALUE_HEADER, b"\1" + GUID), (VALUE_HEADER, PREFIX.pack(0, WRONG))
    contents: list[Content] = [
        (None, b"bare", (guid, wrong) if index % 2 else (wrong, guid)) for index in range(2 * count)
    ]
    assert list(errors_of(contents)) == list(range(1, 2 * count, 2))[:MAX_RECORD_ERRORS]


@SIZES
def test_a_header_that_names_nothing_is_refused(count: int) -> None:
    assert list(errors_of([(None, named(KNOWN), ((VALUE_HEADER, b"?"),))] * count)) == list(
        range(min(count, MAX_RECORD_ERRORS))
    )


@SIZES
def test_a_guid_may_stand_before_the_payload(count: int) -> None:
    check(by_value(*[b"\1" + GUID + b"payload"] * count))


@SIZES
def test_keys_are_judged_by_themselves(count: int) -> None:
    keys = Verdicts(parts=(True,))
    check([(named(KNOWN), b"anything", ())] * count, keys)
    check([(None, b"anything", ())] * count, keys)
    check([(b"bare", b"anything", ((KEY_HEADER, b"\1" + GUID),))] * count, keys)
    errors = errors_of([(b"plain", named(KNOWN), ())] * count, Verdicts(parts=(True, False)))
    assert all("its key names no schema" in text for text in errors.values())


@SIZES
def test_a_record_with_a_wrong_key_and_a_wrong_value_is_told_once(count: int) -> None:
    batch = bytearray(build_batch([(NOW_MS, b"plain", b"plain")] * count))
    with pytest.raises(RejectedRecordsError) as refused:
        finish(validate_in_steps(batch, CONFIG, NOW_MS, Allowance(), Verdicts(parts=(True, False))))
    indexes = [index for index, _ in refused.value.record_errors]
    assert indexes == list(range(min(count, MAX_RECORD_ERRORS)))


def test_a_verdict_is_asked_for_once_a_schema_and_not_once_a_record() -> None:
    verdicts = Verdicts()
    check(by_value(*[named(KNOWN)] * 10_000), verdicts)
    assert verdicts.asked_count == 1


def test_a_log_that_asks_for_schemas_takes_nothing_where_nobody_knows_them() -> None:
    """Nothing is appended that was not checked."""
    batch = bytearray(build_batch([(NOW_MS, None, named(KNOWN))]))
    with pytest.raises(KafkaError) as refused:
        validate_for_append(batch, CONFIG, NOW_MS)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert "confluent.schema.registry.url" in str(refused.value)


@pytest.mark.parametrize("seed", range(20))
def test_one_by_one_and_all_at_once_agree(seed: int) -> None:
    random = Random(seed)

    def content() -> Content:
        bodies = (
            None,
            b"",
            b"\0",
            named(KNOWN),
            named(KNOWN, b""),
            named(WRONG),
            b"\1" + GUID,
            b"plain",
        )
        headers: list[RecordHeader] = []
        for _ in range(random.choice((0, 0, 1, 2))):
            value = random.choice(
                (None, b"", PREFIX.pack(0, KNOWN), b"\1" + GUID, PREFIX.pack(0, WRONG))
            )
            headers.append((random.choice((KEY_HEADER, VALUE_HEADER, "other")), value))
        return random.choice(bodies), random.choice(bodies), tuple(headers)

    parts = random.choice(((True,), (False,), (True, False)))
    good: Content = (named(KNOWN), named(KNOWN), ())
    count = MIN_COUNT_AT_ONCE + random.randrange(40)
    contents = [content() if random.random() < 0.3 else good for _ in range(count)]
    expected = {}
    for index, each in enumerate(contents):
        try:
            check([each], Verdicts(parts=parts))
        except RejectedRecordsError as error:
            expected[index] = error.record_errors[0][1]
    assert errors_of(contents, Verdicts(parts=parts)) == expected, f"seed {seed}"
