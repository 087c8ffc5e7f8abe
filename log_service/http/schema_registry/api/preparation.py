"""Parses, hashes and compares schemas before a decision, so that the decision itself is short.

No record is applied to the state while a decision reads it. So the long work is done beforehand,
one schema at a time, and records are applied in between. The parser caches the results. A text
that cannot be a schema in any state is refused here. Other refusals of a schema are left to the
decision.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.lists import Pacer
from log_service.http.schema_registry.decisions.compatibility import (
    broken_alone,
    broken_reservations,
    compared_versions,
    incompatibility,
)
from log_service.http.schema_registry.decisions.lookup import candidates, compared_form
from log_service.http.schema_registry.decisions.registration import Registration, stored_content
from log_service.http.schema_registry.registry import Registry
from log_service.http.schema_registry.values import RegisteredSchema, SchemaContent


async def prepare_lookup(registry: Registry, subject: str, content: SchemaContent) -> None:
    """Hash the versions of a subject that may be the same schema with a different text.

    The parser caches the hashes, by which the lookup compares the schemas.

    Raises:
        RegistryError: too many computations wait.
    """
    for name in candidates(registry.state, subject):
        await _compare_spellings(registry, registry.state.versions(name, is_deleted=None), content)


async def prepare_registration(registry: Registry, wanted: Registration) -> None:
    """Parse a schema that is to be registered, and compare it with earlier versions.

    Raises:
        RegistryError: the text is not a schema, or too many computations wait.
    """
    state, subject = registry.state, wanted.subject
    content = await _stored_content(registry, wanted)
    if content is None:
        return
    with _left_to_the_decision():
        live = state.versions(subject)
        await _compare_spellings(registry, live, content)
        if not wanted.is_forced and not state.mode(subject).is_importing:
            await first_incompatibility(registry, subject, content, live)


async def first_incompatibility(
    registry: Registry, subject: str, content: SchemaContent, earlier: Sequence[RegisteredSchema]
) -> list[str]:
    """Return the result of ``decisions.compatibility.incompatibilities``, computed step by step.

    Each comparison runs in a worker thread.

    Raises:
        RegistryError: a schema cannot be parsed, or a comparison is over its bound.
    """
    settings, parser = registry.state.settings(subject), registry.parser
    find = partial(broken_reservations, parser, settings, subject, content, earlier)
    broken = await registry.think(find) if settings.validate_fields else []
    for old in compared_versions(settings, content, earlier):
        reasons = await registry.think(
            partial(incompatibility, parser, settings, subject, content, old)
        )
        if reasons:
            return [*broken, *reasons]
    return broken_alone(settings, broken)


async def _stored_content(registry: Registry, wanted: Registration) -> SchemaContent | None:
    """Return the content that would be stored, or None if the decision will refuse it."""
    is_text_alone = bool(wanted.content.text.strip()) and not wanted.content.references
    try:
        return await registry.think(
            partial(stored_content, registry.state, registry.parser, wanted)
        )
    except errors.RegistryError as error:
        if error.code == errors.BUSY or (is_text_alone and error.code == errors.INVALID_SCHEMA):
            raise
        return None


async def _compare_spellings(
    registry: Registry, versions: Sequence[RegisteredSchema], content: SchemaContent
) -> None:
    """Hash the versions that may be the same schema as ``content`` with a different text.

    The parser caches the hashes, by which the decision compares the schemas.
    """
    pacer = Pacer()
    for each in versions:
        await pacer.step()
        form = compared_form(content, each.content)
        if form is not None and each.content.text != content.text:
            with _left_to_the_decision():
                await registry.think(
                    partial(registry.parser.hashed, each.content, each.subject, form)
                )


@contextmanager
def _left_to_the_decision() -> Iterator[None]:
    """Suppress the error that refuses a schema, because the decision will raise it again.

    Raises:
        RegistryError: too many computations wait.
    """
    try:
        yield
    except errors.RegistryError as error:
        if error.code == errors.BUSY:
            raise
