"""Registers schemas: the first request checks a schema, and the second one registers it.

The registry parses and compares each schema before the preview. So a preview is shown only for a
schema that the registry can be expected to accept.
"""

from collections.abc import Mapping

import trio

from log_service.client.schemas.errors import SchemaRegistryError
from log_service.client.schemas.registry_client import SchemaRegistryClient
from log_service.client.schemas.values import Schema, SchemaReference
from log_service.common.counts import counted
from log_service.http.console.addresses import command, path_to
from log_service.http.console.forms import choice_of
from log_service.http.console.page_requests import PageRequest, redirect
from log_service.http.console.pages.schemas.view import TYPES, printed
from log_service.http.console.previews import ChangeRow, Preview, is_confirmed, kept, preview_page
from log_service.http.console.rendering import UNKNOWN
from log_service.http.server.values import HttpError, HttpResponse

MAX_MESSAGES = 20
MAX_REFERENCES = 1_000
MAX_LINE_CHARACTERS = 2_000
NO_SUBJECT = 40401
"""The registry's code for a subject that does not exist."""


async def show(page_request: PageRequest) -> HttpResponse:
    """Show the form of a new schema, filled in with the latest version of the subject."""
    subject = (page_request.form.get("subject") or page_request.query.get("subject", "")).strip()
    registry = await page_request.registry()
    latest = None
    if subject and not page_request.typed:
        latest = (await registry.get_version(subject, "latest")).schema
    fields = page_request.typed or await trio.to_thread.run_sync(fields_of, subject, latest)
    return page_request.page(
        "register.html",
        title="Register a schema",
        commands=(command("schemas", "check", subject or "SUBJECT", "FILE"),),
        fields=fields,
        types=TYPES,
        back=path_to("schema", subject=subject) if latest else path_to("schemas"),
    )


def fields_of(subject: str, latest: Schema | None) -> dict[str, str]:
    """Return the initial fields of the form, with the subject's latest schema if there is one."""
    if latest is None:
        return {"subject": subject}
    return {
        "subject": subject,
        "type": latest.schema_type,
        "text": printed(latest.text, latest.schema_type),
        "references": "\n".join(map(str, latest.references)),
    }


def schema_of(form: Mapping[str, str]) -> Schema:
    """Return the schema in a form.

    Raises:
        HttpError: 400, the schema has no text or too many references, or a reference is malformed.
    """
    text = form.get("text", "")
    if not text.strip():
        raise HttpError(400, "the schema is empty")
    lines = form.get("references", "").rstrip()
    if lines.count("\n") >= MAX_REFERENCES:
        raise HttpError(400, f"the references have at most {counted(MAX_REFERENCES, 'line')}")
    references = []
    for number, line in enumerate(lines.split("\n"), 1):
        if not line.strip():
            continue
        try:
            references.append(SchemaReference.from_text(line.strip()[:MAX_LINE_CHARACTERS]))
        except ValueError as error:
            raise HttpError(400, f"line {number} of the references: {error}") from error
    schema_type = choice_of(form, "type", TYPES)
    return Schema(text=text, schema_type=schema_type, references=tuple(references))


async def register(page_request: PageRequest) -> HttpResponse:
    """Preview a valid and compatible schema, or register it if the person has confirmed it."""
    subject = page_request.required("subject").strip()
    schema = schema_of(page_request.form)
    registry = await page_request.registry()
    if is_confirmed(page_request):
        with page_request.audited("register schema", subject):
            await registry.register_schema(subject, schema)
        return redirect(path_to("schema", subject=subject, done="registered"))
    is_new = subject not in await registry.get_subjects()
    await _check(registry, subject, schema)
    told = "nothing to compare with: the subject is new" if is_new else "yes"
    preview = Preview(
        sentence=f"A schema would be registered under {subject}.",
        action=path_to("schema", "register"),
        button="Register it",
        back=path_to("schemas") if is_new else path_to("schema", subject=subject),
        rows=(
            ChangeRow(what="Type", before=UNKNOWN, after=schema.schema_type),
            ChangeRow(what="Compatible", before=UNKNOWN, after=told),
            *(
                ChangeRow(what="Reference", before=UNKNOWN, after=str(each))
                for each in schema.references
            ),
        ),
        fields=kept(page_request, "subject", "type", "text", "references"),
    )
    return preview_page(page_request, preview, _line(subject, schema))


async def _check(registry: SchemaRegistryClient, subject: str, schema: Schema) -> None:
    """Refuse a schema that the registry cannot parse, or that is not compatible.

    A text that cannot be parsed causes either error, depending on the registry.

    Raises:
        HttpError: 409, the schema is not compatible, or is invalid.
        SchemaRegistryError: 422, the schema is invalid.
    """
    try:
        result = await registry.check_compatibility(subject, schema)
    except SchemaRegistryError as error:
        if error.code != NO_SUBJECT:
            raise
        return  # some registries check nothing for a new subject
    if not result.is_compatible:
        text = f"The registry refuses this schema under {subject}."
        raise HttpError(409, "\n".join([text, *result.messages[:MAX_MESSAGES]]))


def _line(subject: str, schema: Schema) -> str:
    options: list[object] = ["--type", schema.schema_type]
    for each in schema.references:
        options += ["--reference", each]
    return command("schemas", "register", subject, "FILE", *options)
