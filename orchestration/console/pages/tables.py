"""The list of the project's tables, and one table with its rows and commits."""

from functools import partial
from urllib.parse import quote

import trio

from log_service.http.console.addresses import command
from log_service.http.console.page_requests import PageRequest, part_response
from log_service.http.server.values import HttpError, HttpResponse
from orchestration.console.commits import Commit
from orchestration.console.platform import Platform, Sight

SHOWN_ROWS = 50
ROWS_PATIENCE_S = 20.0
TIMESTAMP = "_timestamp"
SLOW = "to read the rows took too long: ask for fewer in SQL"


async def show_list(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Show the tables that the person may read."""
    if platform.missing:
        return page_request.page(
            "nothing.html", title="Pipelines", commands=(), reason=platform.missing
        )
    sight = await platform.sight(page_request)
    own = [
        each
        for each in sight.overview.tables
        if sight.rights.may_read(sight.overview.needed_topics(each.name))
    ]
    values = {
        "tables": own,
        "hidden_count": len(sight.overview.tables) - len(own),
        "trouble": sight.overview.trouble,
        "dagster_url": sight.overview.dagster_url,
        "asset_url": asset_url,
    }
    if page_request.is_part:
        make_part = partial(page_request.part, "table.html", **values)
        return part_response(await trio.to_thread.run_sync(make_part))
    lines = (command("lag"), command("status"))
    make_page = partial(page_request.page, "list.html", title="Pipelines", commands=lines, **values)
    return await trio.to_thread.run_sync(make_page)


async def readable_table(platform: Platform, page_request: PageRequest, name: str) -> Sight:
    """Return the project as the person sees it, if the person may read the table ``name``.

    Raises:
        HttpError: 403, the person may not read the table.
    """
    sight = await platform.sight(page_request)
    sight.rights.require_read(sight.overview.needed_topics(name), f"to see {name[:100]}")
    return sight


async def show(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Show one table."""
    name = page_request.value("table")
    sight = await readable_table(platform, page_request, name)
    facts = sight.overview.table(name)
    found = await platform.ask(page_request, "table", name=name)
    if facts is None and not found["is_there"]:
        raise HttpError(404, f"the project has no table {name[:100]!r}")
    lines = [command("lag", name), command("sql", question_of_rows(name, found["columns"]))]
    if facts is not None and facts.topics:
        lines.append(command("replay", name, "--everything"))
    make_page = partial(
        page_request.page,
        "shown.html",
        title=name,
        commands=tuple(lines),
        name=name,
        facts=facts,
        columns=found["columns"],
        commits=[Commit(**each) for each in found["commits"]],
        is_there=found["is_there"],
        question=question_of_rows(name, found["columns"]),
        dagster_url=sight.overview.dagster_url,
        asset_url=asset_url,
        run_url=run_url,
    )
    return await trio.to_thread.run_sync(make_page)


def question_of_rows(name: str, columns: list[dict[str, object]]) -> str:
    """Return the SQL query for the first rows of a table.

    If rows have times, the latest come first.
    """
    quoted = f'"{name}"'
    order = ""
    if any(each["name"] == TIMESTAMP for each in columns):
        order = f" ORDER BY {TIMESTAMP} DESC"
    return f"SELECT * FROM {quoted}{order} LIMIT {SHOWN_ROWS}"  # noqa: S608 - shown, and run confined


async def show_rows(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Show the latest rows of a table, as a part of its page."""
    name = page_request.value("table")
    await readable_table(platform, page_request, name)
    found = await platform.ask(page_request, "table", name=name)
    values: dict[str, object] = {"name": name, "answer": None, "reason": ""}
    if found["is_there"]:
        question = question_of_rows(name, found["columns"])
        with trio.move_on_after(ROWS_PATIENCE_S) as scope:
            try:
                values["answer"] = await platform.questions.ask(
                    page_request.context.nursery,
                    "sql",
                    user=page_request.person.user,
                    question=question,
                    relations=[name],
                    row_count=SHOWN_ROWS,
                )
            except HttpError as error:
                values["reason"] = error.text
        if scope.cancelled_caught:
            values["reason"] = SLOW
    if page_request.is_part:
        return part_response(await trio.to_thread.run_sync(_rows, page_request, values))
    line = command("sql", question_of_rows(name, found["columns"]))
    return page_request.page("rows_page.html", title=f"Rows of {name}", commands=(line,), **values)


def _rows(page_request: PageRequest, values: dict[str, object]) -> bytes:
    return page_request.part("rows.html", **values)


def asset_url(dagster_url: str, asset: str) -> str:
    """Return the address of an asset in the Dagster UI."""
    return f"{dagster_url}/assets/{quote(asset)}"


def run_url(dagster_url: str, run_id: str) -> str:
    """Return the address of a run in the Dagster UI."""
    return f"{dagster_url}/runs/{quote(run_id, safe='')}"
