"""The subjects of the schema registry, their versions, and how these are changed and deleted."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import trio

from log_service.client.schemas.errors import NO_RESPONSE, SchemaRegistryError
from log_service.client.schemas.registry_client import SchemaRegistryClient
from log_service.client.schemas.values import RegisteredSchema
from log_service.common.counts import counted
from log_service.http.console.addresses import command, path_to
from log_service.http.console.forms import choice_of, number_of
from log_service.http.console.page_requests import PageRequest, part_response, redirect
from log_service.http.console.pages.schemas.view import (
    LEVELS,
    SubjectList,
    SubjectRow,
    subject_list,
    subject_page,
    subject_row,
)
from log_service.http.console.previews import ChangeRow, Preview, is_confirmed, kept, preview_page
from log_service.http.server.values import HttpError, HttpResponse

DONE = {
    "registered": "The schema was registered.",
    "deleted": "The schema was deleted. Its id goes on to be valid for old records.",
    "changed": "The compatibility was changed.",
}
AT_ONCE = 4
"""How many subjects of the list are read at the same time."""
MAX_REFERRING = 10
"""The most schemas that are named as referring to another one."""


async def show_list(page_request: PageRequest) -> HttpResponse:
    """Show a page of the subjects."""
    query = page_request.query
    search = query.get("q", "")[:250]
    own = path_to("schemas", q=search)
    values: dict[str, Any] = {
        "search": search,
        "own": own + ("&" if "?" in own else "?"),
        "done": DONE.get(query.get("done", ""), ""),
        "subjects": None,
        "is_detailed": query.get("details") == "1",
    }
    if page_request.context.registry is not None:
        registry = await page_request.registry()
        names = await registry.get_subjects()
        page = number_of(query, "page", 1, most=1_000_000)
        found = subject_list(names, search=search, page=page)
        values["subjects"] = (
            await _with_details(registry, found) if values["is_detailed"] else found
        )
    if page_request.is_part:
        return part_response(page_request.part("table.html", **values))
    commands = (command("schemas", "list"),)
    return page_request.page("list.html", title="Schemas", commands=commands, **values)


async def _with_details(registry: SchemaRegistryClient, found: SubjectList) -> SubjectList:
    """Add the latest version and the compatibility level to the rows of a list.

    Only ``AT_ONCE`` requests run at the same time.
    """
    limiter, complete = trio.CapacityLimiter(AT_ONCE), dict[str, SubjectRow]()

    async def read(subject: str) -> None:
        async with limiter:
            try:
                latest = await registry.get_version(subject, "latest")
                level = str((await registry.get_config(subject)).get("compatibilityLevel", ""))
            except SchemaRegistryError as error:
                if error.status == NO_RESPONSE:
                    nursery.cancel_scope.cancel()
                return  # it was deleted meanwhile, or this person may not read it
        complete[subject] = subject_row(subject, latest, level)

    async with trio.open_nursery() as nursery:
        for each in found.rows:
            nursery.start_soon(read, each.name)
    return replace(found, rows=tuple(complete.get(each.name, each) for each in found.rows))


async def show(page_request: PageRequest) -> HttpResponse:
    """Show a version of a subject, and its difference to the previous or to another version."""
    subject, query = page_request.required("subject"), {**page_request.query, **page_request.form}
    registry = await page_request.registry()
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
    return page_request.page(
        "subject.html",
        title=f"Schema {subject}",
        commands=tuple(lines),
        page=page,
        levels=LEVELS,
        done=DONE.get(query.get("done", ""), ""),
    )


async def _compared(
    subject: str,
    versions: list[int],
    shown: RegisteredSchema,
    compared: RegisteredSchema | None,
    level: str,
) -> object:
    """Make the page of a subject in a thread, because comparing long schemas takes long."""
    return await trio.to_thread.run_sync(
        partial(subject_page, subject, versions, shown, compared, level)
    )


async def change_level(page_request: PageRequest) -> HttpResponse:
    """Preview a change of the compatibility level, or change it if the person has confirmed it."""
    subject = page_request.required("subject")
    level = choice_of(page_request.form, "level", LEVELS)
    registry = await page_request.registry()
    if is_confirmed(page_request):
        with page_request.audited("set compatibility", f"{subject}: {level}"):
            await registry.set_config({"compatibility": level}, subject)
        return redirect(path_to("schema", subject=subject, done="changed"))
    before = str((await registry.get_config(subject)).get("compatibilityLevel", ""))
    preview = Preview(
        sentence=f"The compatibility of {subject} would change.",
        action=path_to("schema", "level"),
        button="Change it",
        back=path_to("schema", subject=subject),
        rows=(ChangeRow(what="Compatibility", before=before, after=level),),
        fields=kept(page_request, "subject", "level"),
    )
    return preview_page(page_request, preview, command("schemas", "config", subject, level))


async def delete(page_request: PageRequest) -> HttpResponse:
    """Preview the deletion of a version, or delete it if the person has confirmed it."""
    subject = page_request.required("subject")
    version = number_of(page_request.form, "version", 0, least=1)
    if not version:
        raise HttpError(400, "name the version to delete")
    registry = await page_request.registry()
    if is_confirmed(page_request):
        with page_request.audited("delete schema version", f"{subject}: {version}"):
            await registry.delete_version(subject, version)
        return redirect(path_to("schemas", done="deleted"))
    await registry.get_version(subject, version)
    if ids := await registry.get_referenced_by(subject, version):
        users = await _versions_of(registry, ids)
        text = (
            f"Version {version} of {subject} cannot be deleted, because other schemas refer to it"
        )
        raise HttpError(409, f"{text}: {users}. Delete those first.")
    preview = Preview(
        sentence=f"Version {version} of {subject} would be deleted.",
        action=path_to("schema", "delete"),
        button="Delete it",
        back=path_to("schema", subject=subject, version=version),
        fields=kept(page_request, "subject", "version"),
        warnings=("Producers that use this version register it again, or are refused.",),
        is_destructive=True,
    )
    line = command("schemas", "delete", subject, "--version", version)
    return preview_page(page_request, preview, line)


async def _versions_of(registry: SchemaRegistryClient, ids: Sequence[int]) -> str:
    """Return a text that lists the subjects and versions of the first of these schemas."""
    found = [
        f"{subject} version {version}"
        for schema_id in ids[:MAX_REFERRING]
        for subject, version in await registry.get_schema_versions(schema_id)
    ]
    more = len(ids) - MAX_REFERRING
    return ", ".join(found[:MAX_REFERRING]) + (
        f", and {counted(more, 'other schema')}" if more > 0 else ""
    )
