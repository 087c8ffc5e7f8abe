"""Records that no registry would write: none of them ends the reader, and none breaks the state."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.http.schema_registry.log.reader import LogRecord
from log_service.http.schema_registry.records import (
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    KeyType,
    noop_record,
)
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.state_keeper import StateKeeper
from log_service.http.schema_registry.values import MAX_VERSION, Reference
from tests.unit.http.schema_registry.builders import replay, state_of, stored

DEEP = b"[" * 990 + b"]" * 990
SCHEMA_KEY = {"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1}
SCHEMA_VALUE = {"subject": "a", "version": 1, "id": 1, "schema": '"int"', "deleted": False}


def applied(*records: tuple[bytes | None, bytes | None]) -> StateKeeper:
    """Return a keeper that was given records."""
    keeper = StateKeeper()
    for offset, (key, value) in enumerate(records):
        keeper.apply(LogRecord(offset=offset, timestamp_ms=1, key=key, value=value))
    return keeper


def encoded(fields: Any, **changed: Any) -> bytes:
    """Return JSON with some fields changed."""
    return json.dumps({**fields, **changed}).encode()


def str_of_case(part: bytes | str) -> str:
    """Return a short name of a part of a case."""
    return str(part)[:60]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b""),
        (b"\xed\xa0\x80", b"{}"),
        (b'"SCHEMA"', b"{}"),
        (DEEP, b"{}"),
        (encoded(SCHEMA_KEY, keytype=["SCHEMA"]), encoded(SCHEMA_VALUE)),
        (encoded(SCHEMA_KEY, keytype="ASSOC"), encoded(SCHEMA_VALUE)),
        (encoded(SCHEMA_KEY, subject=["a"]), encoded(SCHEMA_VALUE)),
        (encoded(SCHEMA_KEY, subject="\ud800"), encoded(SCHEMA_VALUE, subject="\ud800")),
        (encoded(SCHEMA_KEY, version=1e999), encoded(SCHEMA_VALUE)),
        (encoded(SCHEMA_KEY, version=float("nan")), encoded(SCHEMA_VALUE)),
        (encoded(SCHEMA_KEY, version=10**30), encoded(SCHEMA_VALUE, version=10**30)),
        (encoded(SCHEMA_KEY, version=-1), encoded(SCHEMA_VALUE, version=-1)),
        (encoded(SCHEMA_KEY, version=True), encoded(SCHEMA_VALUE)),
        (encoded(SCHEMA_KEY), DEEP),
        (encoded(SCHEMA_KEY), b"null"),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, id=2**31)),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, id=1e999)),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, version=2)),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, schema="\ud800")),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, schema=["int"])),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, schemaType={})),
        (
            encoded(SCHEMA_KEY),
            encoded(SCHEMA_VALUE, references=[{"name": "\udfff", "subject": "b", "version": 1}]),
        ),
        (
            encoded(SCHEMA_KEY),
            encoded(SCHEMA_VALUE, references=[{"name": "b", "subject": "b", "version": 2**31}]),
        ),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, metadata={"properties": {"a": "\ud800"}})),
        (b'{"keytype":"MODE","magic":0}', b'{"mode":["IMPORT"]}'),
        (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":["NONE"]}'),
        (b'{"keytype":"CONFIG","magic":0}', b'{"alias":"\\ud800"}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', b'{"version":1e999}'),
        (b'{"keytype":"CONTEXT","context":["x"],"magic":0}', b"{}"),
    ],
    ids=str,
)
def test_an_unreadable_record_is_left_out(key: bytes | None, value: bytes) -> None:
    """It is counted, and the next record is taken. The reader of the topic would end otherwise."""
    keeper = applied(
        (key, value), (encoded(SCHEMA_KEY, subject="good"), encoded(SCHEMA_VALUE, subject="good"))
    )
    assert keeper.unreadable_count == 1
    assert keeper.state.subjects == ["good"]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"{not JSON", encoded(SCHEMA_VALUE), "the key is not JSON"),
        (encoded(SCHEMA_KEY, keytype="NEW"), encoded(SCHEMA_VALUE), "of no known kind"),
        (encoded(SCHEMA_KEY, magic=2), encoded(SCHEMA_VALUE), "of no known format"),
        (encoded(SCHEMA_KEY, magic="1"), encoded(SCHEMA_VALUE), "of no known format"),
        (encoded(SCHEMA_KEY, magic=True), encoded(SCHEMA_VALUE), "of no known format"),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE)[:-9], "the value is not JSON"),
        (encoded(SCHEMA_KEY), b"", "the value is not JSON"),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, schemaType="THRIFT"), "schema type THRIFT"),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, schema="x" * MAX_VALUE_BYTES), "may have"),
        (encoded(SCHEMA_KEY, subject="x" * MAX_KEY_BYTES), encoded(SCHEMA_VALUE), "may have"),
        (encoded(SCHEMA_KEY), encoded(SCHEMA_VALUE, subject="b"), "different versions"),
        (b'{"keytype":"MODE","magic":0}', b'{"mode":"SLEEPING"}', "the value is not a mode"),
        (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"?"}', "not settings"),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', b"{}", "version is not a number"),
    ],
    ids=str_of_case,
)
def test_a_record_that_is_left_out_is_told_with_its_offset_and_the_reason(
    key: bytes, value: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A person finds the record by it. The state is that of the records around it."""
    around = (encoded(SCHEMA_KEY, subject="good"), encoded(SCHEMA_VALUE, subject="good"))
    with caplog.at_level(logging.WARNING):
        keeper = applied(around, (key, value), around)
    assert keeper.state.subjects == ["good"]
    (warning,) = [each.getMessage() for each in caplog.records]
    assert warning.startswith("The record at offset 1 is left out: ")
    assert reason in warning
    assert len(warning) < 300


@pytest.mark.parametrize("magic", [{}, {"magic": 0}, {"magic": 1}])
def test_a_key_of_each_known_format_is_read(magic: dict[str, int]) -> None:
    """Old registries wrote keys of schemas with magic 0."""
    key = {name: part for name, part in SCHEMA_KEY.items() if name != "magic"}
    keeper = applied((encoded(key, **magic), encoded(SCHEMA_VALUE)))
    assert (keeper.unreadable_count, keeper.state.subjects) == (0, ["a"])


@pytest.mark.parametrize("key_type", list(KeyType))
def test_tombstones_of_unknown_keys_do_nothing(key_type: KeyType) -> None:
    """Compaction may leave them."""
    keeper = applied((encoded(SCHEMA_KEY, keytype=key_type.value, context=".x"), None))
    assert (keeper.unreadable_count, keeper.state.subjects, keeper.state.contexts) == (0, [], ["."])


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b"[]",
        b'{"highestIds":3}',
        b'{"highestIds":{".":"x","a":-1,"b":1e999,"c":true,"d":2147483648}}',
    ],
)
def test_a_noop_with_another_value_changes_nothing(value: bytes | None) -> None:
    """Other registries write what they like there."""
    keeper = applied((b'{"keytype":"NOOP","magic":0}', value))
    assert (keeper.unreadable_count, dict(keeper.state.highest_ids)) == (0, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["a", ":.c:a", ":.c:", ":*:a", "", ".", ":", "\x1b[2J"]) | JSON
NUMBERS = st.sampled_from([1, 2, 0, -1, MAX_VERSION]) | JSON
KEYS = st.fixed_dictionaries(
    {"keytype": st.sampled_from([each.value for each in KeyType]) | JSON},
    optional={"subject": NAMES, "version": NUMBERS, "context": NAMES, "magic": JSON},
)
VALUES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "subject": NAMES,
        "version": NUMBERS,
        "id": NUMBERS,
        "schema": st.sampled_from(['"int"', '"long"']) | JSON,
        "references": st.lists(
            st.fixed_dictionaries({"name": NAMES, "subject": NAMES, "version": NUMBERS}), max_size=2
        )
        | JSON,
        "deleted": JSON,
        "metadata": JSON,
        "ruleSet": JSON,
        "mode": JSON,
        "alias": NAMES,
        "highestIds": JSON,
    },
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=12))
def test_no_record_ends_the_reader(records: list[tuple[Any, Any]]) -> None:
    """Taken records can be listed, found, and written again."""
    keeper = applied(
        *(
            (json.dumps(key).encode(), None if value is None else json.dumps(value).encode())
            for key, value in records
        )
    )
    state = keeper.state
    versions = [
        version
        for subject in state.subjects
        for version in state.versions(subject, is_deleted=None)
    ]
    assert len(versions) == state.version_count
    for each in versions:
        context = each.subject[1:].partition(":")[0] if each.subject.startswith(":") else "."
        assert state.is_live(each.subject) == bool(state.versions(each.subject))
        if state.user_of_id(context, each.schema_id, each.subject) == each:
            assert state.content_of_id(context, each.schema_id) is not None
    json.dumps(noop_record(state.highest_ids).value.decode())  # type: ignore[union-attr]  # it has a value


def test_an_overwritten_version_gives_its_id_away() -> None:
    """An id never shows the content of another one."""
    state = state_of(stored("a", 1, 1, '"int"'), stored("a", 1, 2, '"long"'))
    assert state.content_of_id(".", 1) is None
    content = state.content_of_id(".", 2)
    assert content is not None
    assert content.text == '"long"'


def test_an_id_stays_while_another_version_of_the_subject_has_it() -> None:
    """A subject may have one schema twice, and lose the later version."""
    state = state_of(stored("a", 1, 1, is_deleted=True), stored("a", 2, 1))
    keys = state.versions_with_id("a", 1)
    assert [key.version for key in keys] == [1]
    state.replay(b'{"keytype":"SCHEMA","subject":"a","version":2,"magic":1}', None)
    assert state.content_of_id(".", 1) is not None
    assert state.user_of_id(".", 1, "a") == state.version("a", 1)


def test_soft_deleted_versions_refer_to_others_as_deleted_ones() -> None:
    """They are found without a look at every version."""
    reference = (Reference(name="a", subject="a", version=1),)
    state = state_of(stored("a"), stored("b", 1, 2, "{}", references=reference))
    assert state.has_referrers("a", 1)
    replay(state, stored("b", 1, 2, "{}", references=reference, is_deleted=True))
    assert not state.has_referrers("a", 1)
    assert state.referrers("a", 1, is_deleted=True) == [("b", 1)]
    state.replay(b'{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}', None)
    assert state.referrers("a", 1, is_deleted=True) == []


def test_aliases_are_found_by_their_subject() -> None:
    """A changed alias leaves its former subject."""
    state = RegistryState()
    for target in ("a", "b", None):
        value = None if target is None else json.dumps({"alias": target}).encode()
        state.replay(b'{"keytype":"CONFIG","subject":"x","magic":0}', value)
        assert state.aliased_subjects == ([] if target is None else [target])
    assert state.aliases_of("a") == []
