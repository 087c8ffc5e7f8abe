"""The records of the topic have the bytes that Confluent's registry writes."""

import json

import pytest

from log_service.http.schema_registry.records import (
    RegistryKey,
    UnreadableRecordError,
    context_record,
    delete_subject_record,
    mode_record,
    noop_record,
    read_highest_ids,
    read_key,
    read_stored_mode,
    read_stored_schema,
    read_stored_settings,
    schema_key,
    schema_record,
    settings_record,
)
from log_service.http.schema_registry.values import CompatibilityLevel, Mode, Settings
from tests.unit.http.schema_registry.builders import stored

KEYS = [
    (
        schema_key("orders-value", 3),
        b'{"keytype":"SCHEMA","subject":"orders-value","version":3,"magic":1}',
    ),
    (
        settings_record("orders", Settings()).key,
        b'{"keytype":"CONFIG","subject":"orders","magic":0}',
    ),
    (settings_record("", Settings()).key, b'{"keytype":"CONFIG","magic":0}'),
    (mode_record("", Mode.IMPORT).key, b'{"keytype":"MODE","magic":0}'),
    (delete_subject_record("a", 2).key, b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}'),
    (noop_record({}).key, b'{"keytype":"NOOP","magic":0}'),
    (
        context_record(".staging").key,
        b'{"keytype":"CONTEXT","tenant":"default","context":".staging","magic":0}',
    ),
    (
        schema_key("größe", 1),
        '{"keytype":"SCHEMA","subject":"größe","version":1,"magic":1}'.encode(),
    ),
]


@pytest.mark.parametrize(("key", "expected"), KEYS)
def test_a_key_has_confluents_bytes(key: RegistryKey, expected: bytes) -> None:
    """Compaction compares bytes, so the order of properties counts."""
    assert key.encode() == expected
    assert read_key(expected) == key


def test_a_key_of_another_order_is_the_same_key() -> None:
    """Old registries wrote the properties in another order."""
    old = b'{"magic":1,"keytype":"SCHEMA","version":3,"subject":"orders-value"}'
    assert read_key(old) == schema_key("orders-value", 3)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"[]",
        b"{",
        b'{"keytype":"OTHER","magic":0}',
        b"\xff",
        b'{"keytype":"SCHEMA","version":"x"}',
    ],
)
def test_other_bytes_are_no_key(key: bytes | None) -> None:
    """Foreign records are told apart, so that they can be skipped."""
    with pytest.raises(UnreadableRecordError):
        read_key(key)


def test_a_schema_is_stored_with_its_parts_in_order() -> None:
    """Avro is not named, and the text stands before the deletion mark."""
    value = schema_record(stored("a", 2, 7)).value
    assert value is not None
    assert list(json.loads(value)) == ["subject", "version", "id", "guid", "schema", "deleted"]
    assert read_stored_schema(value) == stored("a", 2, 7)


def test_settings_and_modes_come_back_as_they_were_written() -> None:
    """Unset settings stay unset."""
    settings = Settings(compatibility_level=CompatibilityLevel.FULL, normalize=False)
    value = settings_record("a", settings).value
    assert value == b'{"subject":"a","normalize":false,"compatibilityLevel":"FULL"}'
    assert read_stored_settings(value) == settings
    mode = mode_record("", Mode.READONLY).value
    assert mode == b'{"mode":"READONLY"}'
    assert read_stored_mode(mode) is Mode.READONLY


@pytest.mark.parametrize(
    "value", [None, b"", b"null", b'{"highestIds":3}', b'{"highestIds":{".":"x"}}']
)
def test_a_noop_of_another_registry_carries_no_ids(value: bytes | None) -> None:
    """Confluent's registry writes no value."""
    assert read_highest_ids(value) == {}


def test_a_noop_carries_the_highest_ids() -> None:
    """Ids of removed schemas must not come again."""
    assert read_highest_ids(noop_record({".": 9, ".b": 2}).value) == {".": 9, ".b": 2}
