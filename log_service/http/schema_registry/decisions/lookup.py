"""Finds registered schemas by subject, id, guid or content.

If a subject of the default context does not have what is looked for, the subjects of the same name
in all other contexts are searched.
"""

import re
from dataclasses import replace

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.decisions.completion import with_settings
from log_service.http.schema_registry.languages.language import SchemaType
from log_service.http.schema_registry.parsing import Form, SchemaParser
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.subjects import DEFAULT_CONTEXT, Subject, context_of
from log_service.http.schema_registry.values import (
    CONFLUENT_VERSION,
    LATEST_VERSION,
    MAX_VERSION,
    Metadata,
    RegisteredSchema,
    SchemaContent,
    guid_of,
)

FROM_DESCRIPTOR = re.compile(r"(?m)^ {2,80}(?:repeated |optional |required )?\.[A-Za-z_]")
"""Finds a Protobuf schema that was printed from a descriptor: types of fields begin with a dot."""


def read_version(text: str) -> int:
    """Return the number of a version in a path. ``latest`` is ``LATEST_VERSION``.

    Raises:
        RegistryError: the text is not a version.
    """
    if text in {"latest", "-1"}:
        return LATEST_VERSION
    is_number = text.isascii() and text.isdigit() and len(text) <= 10
    if not is_number or not 1 <= int(text) <= MAX_VERSION:
        raise errors.invalid_version(text)
    return int(text)


def candidates(state: RegistryState, subject: str) -> list[str]:
    """Return the subjects among which a lookup searches, in their order.

    They are the subject itself and, if it is in the default context, the subjects with its name in
    other contexts.
    """
    parsed = Subject.parse(subject)
    if parsed.context != DEFAULT_CONTEXT:
        return [subject]
    others = (context for context in state.contexts_of(parsed.name) if context != DEFAULT_CONTEXT)
    return [subject, *(str(Subject(context, parsed.name)) for context in others)]


def version_of(
    state: RegistryState, subject: str, version: int, *, is_deleted_included: bool
) -> RegisteredSchema | None:
    """Return one version of exactly this subject, or None if it is missing or hidden."""
    if version == LATEST_VERSION:
        return state.latest(subject)
    found = state.version(subject, version)
    return None if found is None or (found.is_deleted and not is_deleted_included) else found


def find_version(
    state: RegistryState, subject: str, version: int, *, is_deleted_included: bool = False
) -> RegisteredSchema:
    """Return one version of a subject, or of its namesake in another context.

    Raises:
        RegistryError: there is no such subject or version.
    """
    for name in candidates(state, subject):
        found = version_of(state, name, version, is_deleted_included=is_deleted_included)
        if found is not None:
            return found
    if not state.has_subjects(subject, is_deleted_included=is_deleted_included):
        raise errors.subject_not_found(subject)
    raise errors.version_not_found(version)


def find_id(state: RegistryState, schema_id: int, subject: str | None) -> tuple[str, str | None]:
    """Return the context to look up an id in, and the subject there that has the id.

    The subject is None if none is given, or if the id belongs to other subjects of the context.

    Raises:
        RegistryError: the id is not found.
    """
    parsed = Subject.parse(subject or "")
    for name in candidates(state, str(parsed)) if parsed.name else ():
        context = context_of(name)
        if state.user_of_id(context, schema_id, name) is not None:
            return context, name
    is_named_elsewhere = bool(parsed.name) and parsed.context != DEFAULT_CONTEXT
    if is_named_elsewhere or state.content_of_id(parsed.context, schema_id) is None:
        raise errors.schema_not_found(schema_id)
    return parsed.context, None


def find_guid(state: RegistryState, guid: str) -> list[tuple[str, int]]:
    """Return each context that knows a guid, with the schema's id there.

    Raises:
        RegistryError: no context has the guid.
    """
    found = state.ids_of_guid(guid.lower())
    if not found:
        raise errors.schema_not_found(guid)
    return list(found.items())


def find_exact(
    state: RegistryState, subject: str, content: SchemaContent
) -> RegisteredSchema | None:
    """Return the live version of exactly this subject whose content is equal to ``content``.

    None only means that no version has the same text. The schema may exist in another text.
    """
    context = context_of(subject)
    schema_id = state.id_of_guid(context, guid_of(content))
    found = None if schema_id is None else state.user_of_id(context, schema_id, subject)
    is_same = found is not None and found.content == content and not found.is_deleted
    return found if is_same else None


def find_content(
    state: RegistryState,
    parser: SchemaParser,
    subject: str,
    content: SchemaContent,
    *,
    is_normalized: bool = False,
    is_deleted_included: bool = False,
) -> RegisteredSchema:
    """Return the version of a subject that has the content.

    The content is tried as it is, and then with metadata and rules from the latest version and from
    the settings, as registering adds them.

    Raises:
        RegistryError: the schema is invalid, or no version has it.
    """
    for name in candidates(state, subject):
        try:
            found = _find_in_subject(
                state,
                parser,
                name,
                content,
                is_normalized=is_normalized or bool(state.settings(name).normalize),
                is_deleted_included=is_deleted_included,
            )
        except errors.RegistryError:
            if name == subject:
                raise
            continue  # its references may lead to nothing in another context
        if found is not None:
            return found
    if not state.has_subjects(subject, is_deleted_included=is_deleted_included):
        raise errors.subject_not_found(subject)
    raise errors.schema_not_found()


def find_metadata(
    state: RegistryState, subject: str, wanted: dict[str, str], *, is_deleted_included: bool
) -> RegisteredSchema:
    """Return the newest version whose metadata has all the wanted properties.

    Raises:
        RegistryError: there is no such subject or version.
    """
    versions = state.versions(subject, is_deleted=None if is_deleted_included else False)
    for each in reversed(versions):
        properties = {} if each.content.metadata is None else each.content.metadata.properties
        if wanted.items() <= properties.items():
            return each
    if not versions:
        raise errors.subject_not_found(subject)
    raise errors.schema_not_found()


def canonical(
    parser: SchemaParser,
    subject: str,
    content: SchemaContent,
    *,
    is_new: bool,
    is_normalized: bool,
    is_validated: bool = True,
) -> SchemaContent:
    """Return a content with its text in canonical form, and with explicit versions of references.

    ``is_new`` and ``is_validated`` are arguments of ``SchemaParser.parse``.

    Raises:
        RegistryError: the schema is invalid.
    """
    references = parser.with_versions(content.references, subject)
    numbered = replace(content, references=references)
    parsed = parser.parse(numbered, subject, is_new=is_new, is_validated=is_validated)
    if not is_normalized:
        return replace(numbered, text=parsed.canonical)
    ordered = sorted(references, key=lambda each: (each.subject, each.version, each.name))
    return replace(numbered, text=parsed.normalized(), references=tuple(ordered))


def is_same_schema(
    parser: SchemaParser, content: SchemaContent, registered: RegisteredSchema
) -> bool:
    """Return whether a content is the same schema as a registered version.

    The content may differ in three ways: it may lack the version number in its metadata, it may
    have the types of its references in its own text, and a Protobuf schema may be printed from a
    descriptor.
    """
    known = registered.content
    if not _has_same_labels(content, known):
        return False
    if (content.text, content.references) == (known.text, known.references):
        return True
    form = compared_form(content, known)
    if form is None:
        return False
    subject = registered.subject
    return parser.hashed(content, subject, form) == parser.hashed(known, subject, form)


def compared_form(content: SchemaContent, known: SchemaContent) -> Form | None:
    """Return the form in which two contents with different texts may still be equal.

    The form is that of ``SchemaParser.hashed``. None means that they are not equal in any form.
    """
    if not _has_same_labels(content, known):
        return None
    is_protobuf = content.schema_type is SchemaType.PROTOBUF
    if is_protobuf and any(map(FROM_DESCRIPTOR.search, (content.text, known.text))):
        return Form.NORMALIZED
    return Form.RESOLVED if known.references and not content.references else None


def _has_same_labels(content: SchemaContent, known: SchemaContent) -> bool:
    """Return whether two contents have the same type, rules and metadata.

    A version number in the metadata does not count.
    """
    if content.schema_type is not known.schema_type or content.rule_set != known.rule_set:
        return False
    return _without_version(content.metadata) == _without_version(known.metadata)


def _find_in_subject(
    state: RegistryState,
    parser: SchemaParser,
    subject: str,
    content: SchemaContent,
    *,
    is_normalized: bool,
    is_deleted_included: bool,
) -> RegisteredSchema | None:
    """Return the version of exactly this subject that has the content, or the completed content."""
    completed = with_settings(state.settings(subject), content, state.latest(subject))
    for wanted in [content] if completed == content else [content, completed]:
        found = _version_with(
            state,
            parser,
            subject,
            wanted,
            is_normalized=is_normalized,
            is_deleted_included=is_deleted_included,
        )
        if found is not None:
            return found
    return None


def _version_with(
    state: RegistryState,
    parser: SchemaParser,
    subject: str,
    content: SchemaContent,
    *,
    is_normalized: bool,
    is_deleted_included: bool,
) -> RegisteredSchema | None:
    versions = state.versions(subject, is_deleted=None if is_deleted_included else False)
    if not versions or not content.text.strip():
        if content.text.strip():
            canonical(parser, subject, content, is_new=False, is_normalized=is_normalized)
        return None
    wanted = canonical(parser, subject, content, is_new=False, is_normalized=is_normalized)
    exact = [each for each in versions if each.content == wanted]
    loose = (each for each in reversed(versions) if is_same_schema(parser, wanted, each))
    return exact[-1] if exact else next(loose, None)


def _without_version(metadata: Metadata | None) -> Metadata | None:
    if metadata is None or CONFLUENT_VERSION not in metadata.properties:
        return metadata
    left = {name: value for name, value in metadata.properties.items() if name != CONFLUENT_VERSION}
    rest = replace(metadata, properties=left)
    return rest if rest.as_json() else None
