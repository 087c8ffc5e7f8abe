"""The list of topics, and one topic with its partitions and configs."""

from collections.abc import Sequence
from dataclasses import replace

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigEntry, ConfigResource, ItemsFailed
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.http.console.addresses import command, path_to
from log_service.http.console.forms import number_of
from log_service.http.console.page_requests import PageRequest, part_response
from log_service.http.console.pages.topics.view import (
    TopicExtra,
    TopicList,
    TopicPage,
    config_rows,
    retention_of,
    sizes_of,
    topic_list,
    topic_page,
)
from log_service.http.server.values import HttpResponse

DIRECTORIES_TIMEOUT_MS = 5_000
CONFIGS_AT_ONCE = 2
"""Topics whose configs are asked for in one request, so that no response takes long."""
MAX_SEARCH_CHARACTERS = 249
DONE = {
    "created": "The topic was created.",
    "deleted": "The topic was deleted.",
    "changed": "The configs were changed.",
    "grown": "The partitions were added.",
}


async def show_list(page_request: PageRequest) -> HttpResponse:
    """Show a page of the list. Sizes and configs follow with a second request of the browser."""
    query = page_request.query
    search, is_internal = query.get("q", "")[:MAX_SEARCH_CHARACTERS], query.get("internal") == "1"
    admin = await page_request.admin()
    await admin.list_topics(is_internal_included=True)
    found = topic_list(
        admin.cluster.view.topics.values(),
        search=search,
        is_internal_included=is_internal,
        page=number_of(query, "page", 1, most=1_000_000),
    )
    is_detailed = query.get("details") == "1"
    if is_detailed:
        found = await _with_details(admin, found)
    own = path_to("topics", q=search, internal="1" if is_internal else None)
    values = {
        "topics": found,
        "search": search,
        "is_internal": is_internal,
        "is_detailed": is_detailed,
        "own": own + ("&" if "?" in own else "?"),
        "done": DONE.get(query.get("done", ""), ""),
    }
    if page_request.is_part:
        return part_response(page_request.part("table.html", **values))
    pattern = [f"*{search}*"] if search else []
    line = command("topics", "list", *pattern, *(["--internal"] if is_internal else []))
    return page_request.page("list.html", title="Topics", commands=(line,), **values)


async def _with_details(admin: Admin, found: TopicList) -> TopicList:
    names = [row.name for row in found.rows]
    sizes = await sizes_by_partition(admin, names)
    totals: dict[str, int] = {}
    for where, size_bytes in (sizes or {}).items():
        totals[where.topic] = totals.get(where.topic, 0) + size_bytes
    configs = await configs_by_topic(admin, names)
    rows = []
    for row in found.rows:
        entries = configs.get(row.name, {})
        policy = entries.get("cleanup.policy")
        extra = TopicExtra(
            size_bytes=None if sizes is None else totals.get(row.name, 0),
            cleanup_policy=None if policy is None else policy.value,
            retention=retention_of(entries),
        )
        rows.append(replace(row, extra=extra))
    return replace(found, rows=tuple(rows))


async def sizes_by_partition(
    admin: Admin, topics: Sequence[str]
) -> dict[TopicPartition, int] | None:
    """Return the sizes of partitions in bytes.

    Return None if this person may not read sizes, or no broker responds.
    """
    if not topics:
        return {}
    try:
        directories = await admin.describe_log_dirs(timeout_ms=DIRECTORIES_TIMEOUT_MS)
    except KafkaError:
        return None
    return sizes_of(directories, topics)


async def configs_by_topic(
    admin: Admin, topics: Sequence[str]
) -> dict[str, dict[str, ConfigEntry]]:
    """Return the configs of the topics that this person may describe."""
    found: dict[str, dict[str, ConfigEntry]] = {}
    for start in range(0, len(topics), CONFIGS_AT_ONCE):
        asked = [ConfigResource.topic(each) for each in topics[start : start + CONFIGS_AT_ONCE]]
        try:
            results = await admin.describe_configs(asked)
        except ItemsFailed as error:
            results = dict(error.results)
        found |= {resource.name: entries for resource, entries in results.items()}
        await trio.lowlevel.checkpoint()
    return found


async def read_topic(page_request: PageRequest, name: str) -> TopicPage:
    """Return a topic with its partitions.

    Raises:
        KafkaError: the topic does not exist, or this person may not see it.
    """
    admin = await page_request.admin()
    described = (await admin.describe_topics([name]))[name]
    try:
        offsets = await admin.describe_offsets([name], is_leader_awaited=False)
    except ItemsFailed as error:
        offsets = dict(error.results)
    return topic_page(described, offsets, await sizes_by_partition(admin, [name]))


async def show(page_request: PageRequest) -> HttpResponse:
    """Show one topic."""
    name = page_request.value("topic")
    page = await read_topic(page_request, name)
    done = DONE.get(page_request.query.get("done", ""), "")
    line = command("topics", "describe", name)
    return page_request.page("topic.html", title=name, commands=(line,), topic=page, done=done)


async def read_configs(page_request: PageRequest, name: str) -> dict[str, ConfigEntry]:
    """Return the configs of a topic.

    Raises:
        KafkaError: the topic does not exist, or this person may not describe its configs.
    """
    resource = ConfigResource.topic(name)
    return (await (await page_request.admin()).describe_configs([resource]))[resource]


async def show_configs(page_request: PageRequest) -> HttpResponse:
    """Show the configs of a topic."""
    name = page_request.value("topic")
    rows = config_rows(await read_configs(page_request, name))
    return page_request.page(
        "configs.html",
        title=name,
        commands=(command("topics", "describe", name, "--configs"),),
        name=name,
        rows=rows,
        done=DONE.get(page_request.query.get("done", ""), ""),
    )
