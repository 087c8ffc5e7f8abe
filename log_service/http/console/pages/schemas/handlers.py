"""The subjects of the schema registry, their versions, and changes of them."""

from functools import partial
from typing import Any

import trio

from log_service.client.schemas.values import RegisteredSchema, Schema
from log_service.http.console.addresses import command, path_to
from log_service.http.console.forms import choice_of, number_of
from log_service.http.console.pages.schemas.view import (
    LEVELS,
    TYPES,
    subject_list,
    subject_page,
)
from log_service.http.console.previews import ChangeRow, Preview, is_confirmed, kept, preview_page
from log_service.http.console.rendering import UNKNOWN
from log_service.http.console.visits import Visit, part_response, redirect
from log_service.http.server.values import HttpError, HttpResponse

DONE = {
    "registered": "The schema was registered.",
    "deleted": "The schema was deleted. Its id goes on to be valid for old records.",
    "changed": "The compatibility was changed.",
}
MAX_MESSAGES = 20


async def show_list(visit: Visit) -> HttpResponse:
    """Show a page of the subjects."""
    query = visit.query
    search = query.get("q", "")[:250]
    own = path_to("schemas", q=search)
    values: dict[str, Any] = {
        "search": search,
        "own": own + ("&" if "?" in own else "?"),
        "types": TYPES,
        "done": DONE.get(query.get("done", ""), ""),
        "subjects": None,
    }
    if visit.workplace.registry is not None:
        registry = await visit.registry()
        names = await registry.get_subjects()
        page = number_of(query, "page", 1, most=1_000_000)
        values["subjects"] = subject_list(names, search=search, page=page)
    if visit.is_part:
        return part_response(visit.part("table.html", **values))
    commands = (command("schemas", "list"),)
    return visit.page("list.html", title="Schemas", commands=commands, **values)


async def show(visit: Visit) -> HttpResponse:
    """Show a version of a subject, and how it differs from the one before or another one."""
    subject, query = visit.required("subject"), visit.query
    registry = await visit.registry()
    versions = await registry.get_versions(subject)
    version = number_of(query, "version", versions[-1], least=1)
    shown = await registry.get_version(subject, version)
    earlier = [each for each in versions if each < version]
    against = number_of(query, "against", earlier[-1] if earlier else 0)
    compared = await registry.get_version(subject, against) if against else None
    level = str((await registry.get_config(subject)).get("compatibilityLevel", ""))
    page = await _compared(subject, versions, shown, compared, level)
    lines = [command("schemas", "get", subject, version)]
    if compared is not None:
        lines.append(command("schemas", "diff", subject, against, version))
    return visit.page(
        "subject.html",
        title=f"Schema {subject}",
        commands=tuple(lines),
        page=page,
        levels=LEVELS,
        types=TYPES,
        done=DONE.get(query.get("done", ""), ""),
    )


async def _compared(
    subject: str,
    versions: list[int],
    shown: RegisteredSchema,
    compared: RegisteredSchema | None,
    level: str,
) -> object:
    """Compare in another thread, because long schemas take long."""
    return await trio.to_thread.run_sync(
        partial(subject_page, subject, versions, shown, compared, level)
    )


async def register(visit: Visit) -> HttpResponse:
    """Show whether a schema is compatible, or register it."""
    subject, form = visit.required("subject").strip(), visit.form
    schema_type = choice_of(form, "type", TYPES)
    schema = Schema(text=form.get("text", ""), schema_type=schema_type)
    if not schema.text.strip():
        raise HttpError(400, "the schema is empty")
    registry = await visit.registry()
    if is_confirmed(visit):
        with visit.audited("register schema", subject):
            await registry.register_schema(subject, schema)
        return redirect(path_to("schema", subject=subject, done="registered"))
    is_new = subject not in await registry.get_subjects()
    result = None if is_new else await registry.check_compatibility(subject, schema)
    is_compatible = result is None or result.is_compatible
    messages = () if result is None else result.messages[:MAX_MESSAGES]
    told = "new subject" if result is None else "yes" if is_compatible else "no: it is refused"
    preview = Preview(
        sentence=f"A schema would be registered under {subject}.",
        action=path_to("schema", "register"),
        button="Register it",
        back=path_to("schemas") if is_new else path_to("schema", subject=subject),
        rows=(ChangeRow(what="Compatible", before=UNKNOWN, after=told),),
        fields=kept(visit, "subject", "type", "text"),
        warnings=messages,
        is_destructive=not is_compatible,
    )
    return preview_page(visit, preview, command("schemas", "register", subject, "FILE"))


async def change_level(visit: Visit) -> HttpResponse:
    """Show what a level of compatibility changes, or change it."""
    subject = visit.required("subject")
    level = choice_of(visit.form, "level", LEVELS)
    registry = await visit.registry()
    if is_confirmed(visit):
        with visit.audited("set compatibility", f"{subject}: {level}"):
            await registry.set_config({"compatibility": level}, subject)
        return redirect(path_to("schema", subject=subject, done="changed"))
    before = str((await registry.get_config(subject)).get("compatibilityLevel", ""))
    preview = Preview(
        sentence=f"The compatibility of {subject} would change.",
        action=path_to("schema", "level"),
        button="Change it",
        back=path_to("schema", subject=subject),
        rows=(ChangeRow(what="Compatibility", before=before, after=level),),
        fields=kept(visit, "subject", "level"),
    )
    return preview_page(visit, preview, command("schemas", "config", subject, level))


async def delete(visit: Visit) -> HttpResponse:
    """Show that a version would be deleted, or delete it."""
    subject = visit.required("subject")
    version = number_of(visit.form, "version", 0, least=1)
    if not version:
        raise HttpError(400, "name the version to delete")
    registry = await visit.registry()
    if is_confirmed(visit):
        with visit.audited("delete schema version", f"{subject}: {version}"):
            await registry.delete_version(subject, version)
        return redirect(path_to("schemas", done="deleted"))
    await registry.get_version(subject, version)
    preview = Preview(
        sentence=f"Version {version} of {subject} would be deleted.",
        action=path_to("schema", "delete"),
        button="Delete it",
        back=path_to("schema", subject=subject, version=version),
        fields=kept(visit, "subject", "version"),
        warnings=("Producers that use this version register it again, or are refused.",),
        is_destructive=True,
    )
    line = command("schemas", "delete", subject, "--version", version)
    return preview_page(visit, preview, line)
