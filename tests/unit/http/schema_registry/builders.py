"""Builds records and states of a registry for tests."""

from log_service.http.schema_registry.records import RegistryRecord, StoredSchema, schema_record
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.values import Reference, SchemaContent


def stored(
    subject: str,
    version: int = 1,
    schema_id: int = 1,
    text: str = '"string"',
    *,
    references: tuple[Reference, ...] = (),
    is_deleted: bool = False,
) -> StoredSchema:
    """Return the value of one version."""
    content = SchemaContent(text=text, references=references)
    return StoredSchema(
        subject=subject,
        version=version,
        schema_id=schema_id,
        content=content,
        is_deleted=is_deleted,
    )


def replay(state: RegistryState, *records: RegistryRecord | StoredSchema) -> RegistryState:
    """Give records to a state, as the topic would, and return the state."""
    for each in records:
        record = schema_record(each) if isinstance(each, StoredSchema) else each
        state.replay(record.key.encode(), record.value)
    return state


def state_of(*records: RegistryRecord | StoredSchema) -> RegistryState:
    """Return the state of a topic with these records."""
    return replay(RegistryState(), *records)
