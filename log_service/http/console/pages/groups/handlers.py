"""The list of groups, one group, and changes of its offsets."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ItemsFailed, OffsetAndMetadata
from log_service.cluster_operations.group_offsets import (
    Move,
    ResetRefused,
    ResetTarget,
    planned_moves,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.http.console.addresses import command, path_to
from log_service.http.console.forms import choice_of, number_of, time_of
from log_service.http.console.history.plots import Plot, lag_plot
from log_service.http.console.history.rates import lag_key
from log_service.http.console.page_requests import PageRequest, part_response, redirect
from log_service.http.console.pages.groups.progress import read_ends, read_lags
from log_service.http.console.pages.groups.view import (
    KINDS,
    MAX_SHOWN_IN_FLIGHT,
    SHARE,
    GroupPage,
    InFlight,
    group_list,
    group_page,
    in_flight,
    queue_page,
)
from log_service.http.console.previews import ChangeRow, Preview, is_confirmed, kept, preview_page
from log_service.http.console.rendering import UNKNOWN
from log_service.http.server.values import HttpError, HttpResponse

MAX_SHIFT = 2**62
TARGETS = ("earliest", "latest", "offset", "shift", "time")
ABSENT = "Dead"
IN_FLIGHT_TIMEOUT_MS = 5_000
NOT_OF_KAFKA = (
    "Kafka's protocol does not say who holds which record. Brokers of tidelog do, and a broker of"
    " this cluster is another, or an earlier one."
)
DONE = {
    "reset": "The offsets were reset.",
    "deleted": "The group was deleted.",
    "released": "The records of the member were released.",
}


async def show_list(page_request: PageRequest) -> HttpResponse:
    """Show a page of the groups. Their lags follow with a second request of the browser."""
    query = page_request.query
    kind = choice_of(query, "kind", ("", *KINDS))
    search = query.get("q", "")[:250]
    admin = await page_request.admin()
    groups = await admin.list_groups()
    found = group_list(
        groups, search=search, kind=kind, page=number_of(query, "page", 1, most=1_000_000)
    )
    if query.get("details") == "1":
        found = replace(found, lags=await read_lags(admin, found.rows))
    own = path_to("groups", q=search, kind=kind)
    values = {"groups": found, "kinds": KINDS, "own": own + ("&" if "?" in own else "?")}
    if page_request.is_part:
        return part_response(page_request.part("table.html", **values))
    return page_request.page(
        "list.html",
        title="Groups",
        commands=(command("groups", "list"),),
        search=search,
        kind=kind,
        done=DONE.get(query.get("done", ""), ""),
        **values,
    )


async def read_group(admin: Admin, group_id: str) -> GroupPage:
    """Return the page of a group.

    Raises:
        HttpError: 404, the group does not exist.
    """
    listed = {each.group_id: each for each in await admin.list_groups()}
    group_type = listed[group_id].group_type if group_id in listed else ""
    if group_type == SHARE:
        shared = (await admin.describe_share_groups([group_id]))[group_id]
        queue = await admin.list_share_group_offsets(group_id)
        return queue_page(shared, queue, await read_ends(admin, _topics_of(queue)))
    group = (await admin.describe_groups([group_id]))[group_id]
    committed = await admin.list_group_offsets(group_id) if group.state != ABSENT else {}
    if group.state == ABSENT and not committed:
        raise HttpError(404, f"there is no group {group_id[:100]!r}, or you may not see it")
    assigned = {where for member in group.members for where in member.assignment}
    ends = await read_ends(admin, _topics_of([*committed, *assigned]))
    return group_page(group, group_type, committed, ends)


def _topics_of(partitions: Iterable[TopicPartition]) -> list[str]:
    return sorted({where.topic for where in partitions})


async def show(page_request: PageRequest) -> HttpResponse:
    """Show one group."""
    group_id = page_request.required("id")
    admin = await page_request.admin()
    page = await read_group(admin, group_id)
    sampler, now_ms = page_request.context.sampler, page_request.context.env.clock.wall_ms()
    topics = sorted({each.topic for each in page.offsets})
    plots: tuple[Plot, ...] = ()
    if sampler is not None:
        keys = [lag_key(group_id, each) for each in topics]
        plots = (lag_plot(sampler.history, keys, now_ms),)
    flight = await _in_flight(admin, page) if page.is_queue else InFlight()
    values = {"group": page, "sampler": sampler, "plots": plots, "flight": flight}
    if page_request.is_part:
        return part_response(page_request.part("state.html", **values))
    lines = (
        command("groups", "describe", group_id),
        command("groups", "describe", group_id, "--members"),
    )
    return page_request.page(
        "group.html",
        title=f"Group {group_id}",
        commands=lines,
        **values,
        targets=TARGETS,
        topics=topics,
        done=DONE.get(page_request.query.get("done", ""), ""),
    )


async def _in_flight(admin: Admin, page: GroupPage) -> InFlight:
    """Return the records in flight of a share group, or the reason why they are unknown."""
    partitions = [TopicPartition(each.topic, each.partition) for each in page.offsets]
    if not partitions:
        return InFlight()
    try:
        found = await admin.describe_share_records(
            page.group_id,
            partitions,
            max_ranges=MAX_SHOWN_IN_FLIGHT,
            timeout_ms=IN_FLIGHT_TIMEOUT_MS,
        )
    except ItemsFailed as error:
        return in_flight(error.results, page.members)
    except KafkaError as error:
        is_unknown = error.code is ErrorCode.UNSUPPORTED_VERSION
        return InFlight(refusal=NOT_OF_KAFKA if is_unknown else str(error))
    return in_flight(found, page.members)


async def reset(page_request: PageRequest) -> HttpResponse:
    """Preview a reset of a group's offsets, or reset them if the person has confirmed it."""
    group_id, form = page_request.required("id"), page_request.form
    admin = await page_request.admin()
    page = await read_group(admin, group_id)
    if not page.is_empty:
        text = f"group {group_id} is {page.state} and has members: stop them first"
        raise HttpError(409, text)
    target, options = _target_of(form)
    moves = await _moves(admin, page, target, form)
    if not moves:
        raise HttpError(400, "the group has no offsets like that: name another topic")
    if is_confirmed(page_request):
        alter = admin.alter_share_group_offsets if page.is_queue else admin.alter_group_offsets
        with page_request.audited(
            "reset offsets", f"group {group_id} to {target.kind} {target.value}"
        ):
            await alter(group_id, {move.where: move.after for move in moves})
        return redirect(path_to("group", id=group_id, done="reset"))
    topic = ["--topic", form["topic"]] if form.get("topic") else ["--all-topics"]
    line = command("groups", "reset", group_id, *topic, *options, "--execute")
    preview = Preview(
        sentence=f"The offsets of group {group_id} would move.",
        action=path_to("group", "reset"),
        button="Reset them",
        back=path_to("group", id=group_id),
        rows=tuple(map(_change_row, moves)),
        fields=kept(page_request, "id", "topic", "to", "offset", "shift", "time"),
        warnings=("Set back, records are read again. Set forward, records are left out.",),
    )
    return preview_page(page_request, preview, line)


def _target_of(form: Mapping[str, str]) -> tuple[ResetTarget, list[object]]:
    """Return the target in a form, and the equivalent options of the command."""
    kind = choice_of(form, "to", TARGETS)
    if kind == "offset":
        value = number_of(form, "offset", 0)
        return ResetTarget(kind=kind, value=value), ["--to-offset", value]
    if kind == "shift":
        value = number_of(form, "shift", 0, least=-MAX_SHIFT, most=MAX_SHIFT)
        return ResetTarget(kind=kind, value=value), ["--shift-by", value]
    if kind == "time":
        value = time_of(form.get("time", ""), "time")
        return ResetTarget(kind=kind, value=value), ["--to-time", value]
    return ResetTarget(kind=kind), [f"--to-{kind}"]


async def _moves(
    admin: Admin, page: GroupPage, target: ResetTarget, form: Mapping[str, str]
) -> list[Move]:
    topic = form.get("topic", "")
    rows = [each for each in page.offsets if topic in {"", each.topic}]
    committed = {
        TopicPartition(each.topic, each.partition): OffsetAndMetadata(offset=each.position)
        for each in rows
        if each.position is not None
    }
    wanted = [TopicPartition(each.topic, each.partition) for each in rows]
    if topic and not wanted:
        described = (await admin.describe_topics([topic]))[topic]
        wanted = described.topic_partitions
    try:
        return await planned_moves(admin, target, committed, dict.fromkeys(wanted, 0))
    except ResetRefused as error:
        raise HttpError(400, str(error)) from error


def _change_row(move: Move) -> ChangeRow:
    note = f" ({move.note})" if move.note else ""
    before = UNKNOWN if move.before is None else str(move.before)
    return ChangeRow(what=str(move.where), before=before, after=f"{move.after}{note}")


async def delete(page_request: PageRequest) -> HttpResponse:
    """Preview the deletion of a group, or delete it if the person has confirmed it."""
    group_id = page_request.required("id")
    admin = await page_request.admin()
    if is_confirmed(page_request):
        if page_request.form.get("confirmation", "").strip() != group_id.strip():
            raise HttpError(400, "type the id of the group to delete it")
        with page_request.audited("delete group", group_id):
            await admin.delete_groups([group_id])
        return redirect(path_to("groups", done="deleted"))
    page = await read_group(admin, group_id)
    if not page.is_empty:
        raise HttpError(409, f"group {group_id} is {page.state} and has members: stop them first")
    preview = Preview(
        sentence=f"The group {group_id} would be deleted.",
        action=path_to("group", "delete"),
        button="Delete it with its offsets",
        back=path_to("group", id=group_id),
        fields=(("id", group_id),),
        warnings=(f"Offsets of {len(page.offsets)} partitions are deleted.",),
        confirmation=group_id,
        is_destructive=True,
    )
    return preview_page(page_request, preview, command("groups", "delete", group_id))


async def release(page_request: PageRequest) -> HttpResponse:
    """Preview which records a member of a queue would release, or release them if confirmed."""
    group_id, member_id = page_request.required("id"), page_request.required("member")
    admin = await page_request.admin()
    page = await read_group(admin, group_id)
    if not page.is_queue:
        raise HttpError(400, f"group {group_id} is no queue, so its members hold no records")
    if is_confirmed(page_request):
        partitions = [TopicPartition(each.topic, each.partition) for each in page.offsets]
        with page_request.audited("release records", f"group {group_id} member {member_id}"):
            nodes = await admin.release_share_records(group_id, member_id, partitions)
        if not nodes:
            text = f"member {member_id[:100]} holds no records any more"
            raise HttpError(409, text)
        return redirect(path_to("group", id=group_id, done="released"))
    held_count = (await _in_flight(admin, page)).held_counts.get(member_id)
    client = next((each for each in page.members if each.member_id == member_id), None)
    name = member_id if client is None else f"{client.client_id} at {client.host} ({member_id})"
    before = "all that it holds" if held_count is None else f"{held_count} held"
    preview = Preview(
        sentence=f"The records that {name} holds would be delivered again.",
        action=path_to("group", "release"),
        button="Release them",
        back=path_to("group", id=group_id),
        rows=(ChangeRow(what="Records", before=before, after="wait for another delivery"),),
        fields=kept(page_request, "id", "member"),
        warnings=(
            "If the member works on them still, they are done twice, and it is told so when it"
            " acknowledges them.",
            "Each counts as delivered. One that was delivered too often is given up.",
        ),
        is_destructive=True,
    )
    line = command("groups", "release", group_id, "--member", member_id)
    return preview_page(page_request, preview, line)
