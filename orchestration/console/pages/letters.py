"""Dead letters: their counts, the list of a table, one letter, and how they are fixed and replayed.

The commands ``tidelog dead-letters fix`` and ``replay`` do the work, in a process of their own.
The first request for a change only tries it. A second request, which confirms it, makes the change.
Both need READ and WRITE on the topics of the table.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import trio

from log_service.http.console.addresses import command, path_to
from log_service.http.console.page_requests import PageRequest
from log_service.http.console.previews import is_confirmed
from log_service.http.server.values import HttpError, HttpResponse
from orchestration.console.pages import jobs
from orchestration.console.pages.tables import asset_url, readable_table, run_url
from orchestration.console.platform import Platform

MAX_RULE_CHARACTERS = 250


async def show_summary(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Show the counts by table, rule and reason, of the tables that the person may read."""
    sight = await platform.sight(page_request)
    summary = await platform.ask(page_request, "letter_summary")
    rows = [
        row
        for row in summary["rows"]
        if sight.rights.may_read(sight.overview.needed_topics(str(row["target"])))
    ]
    make_page = partial(
        page_request.page,
        "letters.html",
        title="Dead letters",
        commands=(command("dead-letters", "list"),),
        rows=rows,
        is_cut=summary["is_cut"],
    )
    return await trio.to_thread.run_sync(make_page)


async def show_list(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Show the first dead letters of a table, of one rule or of all."""
    table = page_request.value("table")
    rule = page_request.query.get("rule", "")[:MAX_RULE_CHARACTERS]
    await readable_table(platform, page_request, table)
    rows = await platform.ask(page_request, "letter_list", table=table, rule=rule or None)
    summary = await platform.ask(page_request, "letter_summary")
    rules: dict[str, int] = summary["rules"].get(table, {})
    options = ["--rule", rule] if rule else []
    lines = (
        command("dead-letters", "list", table, *options),
        command("dead-letters", "replay", table, *options),
    )
    render = partial(
        page_request.page,
        "letter_list.html",
        title=f"Dead letters of {table}",
        commands=lines,
        table=table,
        rule=rule,
        rules=rules,
        rows=rows,
        total=rules.get(rule, 0) if rule else sum(rules.values()),
    )
    return await trio.to_thread.run_sync(render)


async def show(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Show one dead letter with its record, its row, its run, its fix and its replay."""
    table, place = page_request.required("table"), page_request.required("place")
    sight = await readable_table(platform, page_request, table)
    letter: Mapping[str, Any] = await platform.ask(page_request, "letter", table=table, place=place)
    lines = [command("dead-letters", "show", table, letter["place"])]
    if letter["is_editable"]:
        lines.append(command("dead-letters", "fix", table, letter["place"], "--edit"))
    lines.append(command("dead-letters", "replay", table, letter["place"]))
    return page_request.page(
        "letter.html",
        title=f"Dead letter {letter['place']} of {table}",
        commands=tuple(lines),
        table=table,
        letter=letter,
        row_question=row_question(table, letter["duplicate_of"]),
        dagster_url=sight.overview.dagster_url,
        asset_url=asset_url,
        run_url=run_url,
    )


def row_question(table: str, duplicate_of: str | None) -> str:
    """Return the SQL query for the row whose record is repeated by a dead letter.

    It is empty if the dead letter repeats none, or one of a deleted topic.
    """
    topic, _, place = (duplicate_of or "").rpartition("/")
    partition, _, offset = place.partition(":")
    if topic or not (partition.isdecimal() and offset.isdecimal()):
        return ""
    where = f"_partition = {partition} AND _offset = {offset}"
    return f'SELECT * FROM "{table}" WHERE {where}'  # noqa: S608 - a link that fills the box in


async def fix(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Begin a job that tries the fix of a dead letter, or that keeps it and replays the record."""
    table, place = page_request.required("table"), page_request.required("place")
    value = page_request.form.get("value", "")
    options = [table, place, "--value", value]
    return await _change(
        platform,
        page_request,
        "fix",
        {"table": table, "place": place, "value": value},
        title=f"Fix {place} of {table}",
        options=["fix", *options],
    )


async def replay(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Begin a job that counts the dead letters a replay reads, or that replays them.

    They are one, those of a rule, or all.
    """
    table = page_request.required("table")
    place, rule = page_request.form.get("place") or None, page_request.form.get("rule") or None
    if place is not None and rule is not None:
        raise HttpError(400, "a place is one dead letter: name it without a rule")
    which = place or (f"those of the rule {rule}" if rule else "all dead letters")
    choice = [place] if place else ["--rule", rule] if rule else []
    return await _change(
        platform,
        page_request,
        "replay",
        {"table": table, "place": place, "rule": rule},
        title=f"Replay {which} of {table}",
        options=["replay", table, *choice],
    )


async def _change(
    platform: Platform,
    page_request: PageRequest,
    method: str,
    parameters: dict[str, Any],
    *,
    title: str,
    options: list[Any],
) -> HttpResponse:
    """Begin a job that tries a change, or that makes it once the person has confirmed the trial."""
    table = str(parameters["table"])
    sight = await readable_table(platform, page_request, table)
    facts = sight.overview.table(table)
    targets = [facts.target] if facts is not None and facts.target else []
    execute = is_confirmed(page_request)
    action, target = f"{method} dead letters", " ".join(str(each) for each in options[1:3])
    try:
        sight.rights.require_write(
            [*sight.overview.needed_topics(table), *targets],
            f"to {method} dead letters of {table[:100]}",
        )
    except HttpError:
        with page_request.audited(action, target):
            raise
    worker = platform.changes if execute else platform.previews

    async def work() -> Any:
        ask = partial(
            worker.ask,
            page_request.context.nursery,
            method,
            user=page_request.person.user,
            **parameters,
            execute=execute,
        )
        if not execute:
            return await ask()
        with page_request.audited(action, target):
            found = await ask()
        platform.forget()
        return found

    line = command("dead-letters", *options, *(["--execute"] if execute else []))
    return jobs.begin(
        platform,
        page_request,
        "change",
        work,
        title=title,
        commands=(line,),
        table=table,
        method=method,
        is_executed=execute,
        fields={name: value for name, value in parameters.items() if value is not None},
        action=path_to("pipelines", method),
        back=path_to("pipelines", "letters", table),
    )
