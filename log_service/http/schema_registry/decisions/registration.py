"""Gives a schema its version under a subject and its id in the subject's context.

A content that the context knows keeps its id. A content that the subject knows keeps its version.
The order of the checks is that of Confluent's registry.
"""

from dataclasses import dataclass

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.decisions.compatibility import incompatibilities
from log_service.http.schema_registry.decisions.completion import completed
from log_service.http.schema_registry.decisions.decision import Decision
from log_service.http.schema_registry.decisions.lookup import canonical, is_same_schema
from log_service.http.schema_registry.parsing import SchemaParser
from log_service.http.schema_registry.records import (
    RegistryRecord,
    StoredSchema,
    context_record,
    schema_record,
)
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.subjects import context_of, scope_of
from log_service.http.schema_registry.values import (
    MAX_VERSION,
    NEW_SCHEMA_ID,
    NEW_VERSION,
    Mode,
    RegisteredSchema,
    SchemaContent,
    guid_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A request to register a schema.

    ``schema_id`` is only given in import mode. A given ``version`` must be the next one, except in
    import mode. ``is_forced`` skips the comparison with earlier versions.
    """

    subject: str
    content: SchemaContent
    schema_id: int = NEW_SCHEMA_ID
    version: int = NEW_VERSION
    is_normalized: bool = False
    is_forced: bool = False


def register(
    state: RegistryState, parser: SchemaParser, wanted: Registration
) -> Decision[RegisteredSchema]:
    """Return the records that register a schema, and the registered schema.

    Raises:
        RegistryError: the mode forbids it, the schema is invalid or incompatible, or its id or
            version is taken.
    """
    subject, settings, mode = (
        wanted.subject,
        state.settings(wanted.subject),
        state.mode(wanted.subject),
    )
    content = stored_content(state, parser, wanted)
    live, new_version = state.versions(subject), _new_version(state, subject)
    known = _known_version(parser, live, content, wanted)
    if known is not None:
        return Decision(result=known)
    if not mode.is_importing and not wanted.is_forced:
        reasons = incompatibilities(parser, settings, subject, content, live)
        if reasons:
            raise errors.incompatible(subject, reasons)
    version = _version(wanted.version, new_version, mode)
    schema_id = _schema_id(state, subject, content, wanted.schema_id)
    return _registered(state, subject, version, schema_id, content)


def stored_content(
    state: RegistryState, parser: SchemaParser, wanted: Registration
) -> SchemaContent:
    """Return the content that a registration would store.

    Raises:
        RegistryError: the mode forbids it, or the schema is invalid.
    """
    subject, settings = wanted.subject, state.settings(wanted.subject)
    _check_mode(subject, state.mode(subject), wanted.schema_id)
    content = wanted.content
    if not state.mode(subject).is_importing:
        new_version = _new_version(state, subject)
        content = completed(settings, content, state.latest(subject), wanted.version, new_version)
    return canonical(
        parser,
        subject,
        content,
        is_new=wanted.schema_id == NEW_SCHEMA_ID,
        is_normalized=wanted.is_normalized or bool(settings.normalize),
        is_validated=settings.is_validating_new_schemas,
    )


def _check_mode(subject: str, mode: Mode, schema_id: int) -> None:
    where = f"Subject {subject} in context {context_of(subject)}"
    if mode.is_read_only:
        raise errors.not_permitted(f"{where} is in read-only mode")
    if schema_id != NEW_SCHEMA_ID and not mode.is_importing:
        raise errors.not_permitted(f"{where} is not in import mode")
    if schema_id == NEW_SCHEMA_ID and mode is not Mode.READWRITE:
        raise errors.not_permitted(f"{where} is not in read-write mode")


def _new_version(state: RegistryState, subject: str) -> int:
    return max((each.version for each in state.versions(subject, is_deleted=None)), default=0) + 1


def _known_version(
    parser: SchemaParser, live: list[RegisteredSchema], content: SchemaContent, wanted: Registration
) -> RegisteredSchema | None:
    if wanted.version != NEW_VERSION:
        return None
    exact = [each for each in live if each.content == content]
    loose = [each for each in live if is_same_schema(parser, content, each)]
    for each in [*reversed(exact), *reversed(loose)]:
        if wanted.schema_id in {NEW_SCHEMA_ID, each.schema_id}:
            return each
    return None


def _version(asked: int, new: int, mode: Mode) -> int:
    if asked <= NEW_VERSION:
        if new > MAX_VERSION:
            raise errors.not_permitted(f"The subject has used its last version, {MAX_VERSION}")
        return new
    if asked != new and mode is not Mode.IMPORT:
        text = "Version is not one more than previous version"
        raise errors.RegistryError(errors.INVALID_SCHEMA, text)
    return asked


def _schema_id(state: RegistryState, subject: str, content: SchemaContent, asked: int) -> int:
    context = context_of(subject)
    if asked == NEW_SCHEMA_ID:
        known = state.id_of_guid(context, guid_of(content))
        if known is not None and state.content_of_id(context, known) == content:
            return known
        new_id = state.highest_ids.get(context, 0) + 1
        if new_id > MAX_VERSION:
            text = (
                f"Context {context} has used its last id, {MAX_VERSION}: register in another"
                " context"
            )
            raise errors.not_permitted(text)
        return new_id
    taken = state.content_of_id(context, asked)
    if taken is not None and taken != content:
        text = (
            f"Overwrite new schema with id {asked} in context {scope_of(subject)} is not permitted."
        )
        raise errors.not_permitted(text)
    return asked


def _registered(
    state: RegistryState, subject: str, version: int, schema_id: int, content: SchemaContent
) -> Decision[RegisteredSchema]:
    records: list[RegistryRecord] = []
    context = context_of(subject)
    if not state.has_context(context):
        records.append(context_record(context))
    records += [
        RegistryRecord(key=key)
        for key in state.versions_with_id(subject, schema_id)
        if key.version < version and not state.has_referrers(subject, key.version)
    ]
    stored = StoredSchema(subject=subject, version=version, schema_id=schema_id, content=content)
    answer = RegisteredSchema(
        subject=subject,
        version=version,
        schema_id=schema_id,
        content=content,
        guid=guid_of(content),
    )
    return Decision(records=(*records, schema_record(stored)), result=answer)
