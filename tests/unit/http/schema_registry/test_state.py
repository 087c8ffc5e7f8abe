"""The records of the topic add up to the registry's state."""

import pytest

from log_service.http.schema_registry.records import (
    RegistryRecord,
    UnreadableRecordError,
    clear_subject_record,
    context_record,
    delete_subject_record,
    mode_record,
    noop_record,
    schema_key,
    schema_record,
    settings_record,
)
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.values import CompatibilityLevel, Mode, Reference, Settings
from tests.unit.http.schema_registry.builders import replay, state_of, stored


def test_versions_and_ids_are_found_again() -> None:
    """One content has one id under two subjects of a context."""
    state = state_of(stored("a", 1, 1), stored("b", 1, 1), stored("a", 2, 2, '"int"'))
    assert [each.version for each in state.versions("a")] == [1, 2]
    assert {each.subject for each in state.users_of_id(".", 1)} == {"a", "b"}
    latest = state.latest("a")
    assert latest is not None
    assert (latest.schema_id, latest.content.text) == (2, '"int"')
    assert state.id_of_guid(".", latest.guid) == 2


def test_a_soft_deleted_version_keeps_its_id() -> None:
    """Consumers may still have its records."""
    state = state_of(stored("a"), delete_subject_record("a", 1))
    assert state.versions("a") == []
    assert [each.version for each in state.versions("a", is_deleted=True)] == [1]
    assert state.content_of_id(".", 1) is not None
    assert not state.has_subjects("a", is_deleted_included=False)
    assert state.has_subjects("a", is_deleted_included=True)


def test_a_removed_version_is_gone_and_its_id_is_not_given_again() -> None:
    """Only the highest id remembers it."""
    state = state_of(stored("a", 1, 5), RegistryRecord(key=schema_key("a", 1)))
    assert state.version("a", 1) is None
    assert state.content_of_id(".", 5) is None
    assert state.subjects == []
    assert state.highest_ids == {".": 5}
    assert state_of(noop_record({".": 9})).highest_ids == {".": 9}


def test_another_schema_with_a_known_id_is_left_out() -> None:
    """Two writers without a fence may give one id twice. The first one counts."""
    state = state_of(stored("a", 1, 1))
    with pytest.raises(UnreadableRecordError, match="id 1 belongs to another schema"):
        replay(state, stored("b", 1, 1, '"int"'))
    assert state.subjects == ["a"]


def test_contexts_have_ids_of_their_own() -> None:
    """An id counts in one context."""
    state = state_of(context_record(".b"), stored("a", 1, 1), stored(":.b:a", 1, 1, '"int"'))
    assert state.contexts == [".", ".b"]
    found = state.content_of_id(".b", 1)
    assert found is not None
    assert found.text == '"int"'
    assert list(state.subjects_in(":.b:")) == [":.b:a"]


def test_live_versions_alone_refer_to_others() -> None:
    """A soft-deleted version holds nobody."""
    reference = Reference(name="a", subject="a", version=1)
    user = stored("b", 1, 2, "{}", references=(reference,))
    state = state_of(stored("a"), user)
    assert state.referrers("a", 1) == [("b", 1)]
    replay(state, stored("b", 1, 2, "{}", references=(reference,), is_deleted=True))
    assert state.referrers("a", 1) == []


def test_settings_come_from_the_nearest_scope() -> None:
    """A subject's own, then its context's, then those of all contexts, then the default."""
    full, none = CompatibilityLevel.FULL, CompatibilityLevel.NONE
    state = state_of(
        settings_record(":.__GLOBAL:", Settings(normalize=True)),
        settings_record("", Settings(compatibility_level=full)),
        settings_record("a", Settings(compatibility_level=none)),
    )
    assert state.settings("a") == Settings(compatibility_level=none, normalize=True)
    assert state.settings("b") == Settings(compatibility_level=full, normalize=True)
    other = Settings(compatibility_level=CompatibilityLevel.BACKWARD, normalize=True)
    assert state.settings(":.c:b") == other
    replay(state, settings_record("a", None))
    assert state.settings("a").compatibility_level is full


def test_modes_come_from_the_nearest_scope() -> None:
    """A global override wins over a subject's own mode."""
    state = state_of(mode_record("a", Mode.IMPORT))
    assert state.mode("a") is Mode.IMPORT
    assert state.mode("b") is Mode.READWRITE
    replay(state, mode_record("", Mode.READONLY_OVERRIDE))
    assert state.mode("a") is Mode.READONLY_OVERRIDE


def test_a_cleared_scope_forgets_its_soft_deleted_versions() -> None:
    """Live versions stay."""
    state = state_of(stored("a"), delete_subject_record("a", 1), stored("b", 1, 2, '"int"'))
    replay(state, clear_subject_record(""))
    assert state.subjects == ["b"]


def test_a_key_of_another_order_is_removed_in_its_own_bytes() -> None:
    """Compaction would keep it beside the new one, and bring the schema back."""
    old = b'{"magic":1,"keytype":"SCHEMA","subject":"a","version":1}'
    state = RegistryState()
    state.replay(old, schema_record(stored("a")).value)
    removal = RegistryRecord(key=schema_key("a", 1))
    assert state.encoded([removal]) == [(old, None), (schema_key("a", 1).encode(), None)]


@pytest.mark.parametrize(
    "value", [b"", b"[]", b'{"subject":"a"}', b"\xff\xfe", b'{"subject":"a","version":"x","id":1}']
)
def test_an_unreadable_value_changes_nothing(value: bytes) -> None:
    """The reader skips such a record."""
    state = RegistryState()
    with pytest.raises(UnreadableRecordError):
        state.replay(schema_key("a", 1).encode(), value)
    assert state.subjects == []


def test_a_cleared_state_is_empty() -> None:
    """The topic was deleted and created anew."""
    state = state_of(
        stored("a"), settings_record("", Settings(normalize=True)), noop_record({".": 4})
    )
    state.clear()
    assert state.subjects == []
    assert state.highest_ids == {}
    assert state.own_settings("") is None
