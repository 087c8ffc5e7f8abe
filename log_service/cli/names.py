"""Reads typed names of topics, partitions and groups, and completes them for the shell.

A pattern has ``*``, ``?`` or ``[...]``, as in a shell. Partitions are written as ``orders:0,2-4``.
A pattern without a match is an error, because it must be a mistake. Completion asks the cluster
only if a server accepts a connection at once. It reports no errors, because a shell is waiting.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial

import click
from click.shell_completion import CompletionItem

from log_service.cli.connection import accepts_at_once, open_admin
from log_service.cli.output import default_servers
from log_service.cli.running import run
from log_service.client.admin.admin import Admin
from log_service.common.counts import counted
from log_service.common.errors import TidelogError
from log_service.common.types import TopicPartition
from log_service.config.client import parse_servers

PARTITION_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MAX_RANGE = 100_000


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern: it has a wildcard, which no topic's name can have."""
    return any(letter in name for letter in "*?[")


async def matching(
    wanted: Sequence[str], list_names: Callable[[], Awaitable[Iterable[str]]], what: str
) -> list[str]:
    """Return the wanted names, each once, with patterns replaced by their matches.

    Names are listed only if there is a pattern.

    Raises:
        ClickException: a pattern matches nothing.
    """
    if not any(map(is_pattern, wanted)):
        return list(dict.fromkeys(wanted))
    known = sorted(await list_names())
    found: dict[str, None] = {}
    for name in wanted:
        matched = (
            [name]
            if name in known or not is_pattern(name)
            else [each for each in known if fnmatchcase(each, name)]
        )
        if not matched:
            raise click.ClickException(f"no {what} matches {name!r}; see: tidelog {what}s list")
        found.update(dict.fromkeys(matched))
    return list(found)


async def topic_names(admin: Admin, *, is_internal_included: bool = False) -> list[str]:
    """Return the names of all topics."""
    return [
        topic.name for topic in await admin.list_topics(is_internal_included=is_internal_included)
    ]


async def group_ids(admin: Admin) -> list[str]:
    """Return the ids of all groups."""
    return [group.group_id for group in await admin.list_groups()]


async def matching_topics(
    admin: Admin, wanted: Sequence[str], *, is_internal_included: bool = False
) -> list[str]:
    """Return topics by name or pattern, or all if none is named."""
    listed = partial(topic_names, admin, is_internal_included=is_internal_included)
    return await matching(wanted, listed, "topic") if wanted else await listed()


async def matching_groups(admin: Admin, wanted: Sequence[str]) -> list[str]:
    """Return groups by id or pattern, or all if none is named."""
    return (
        await matching(wanted, partial(group_ids, admin), "group")
        if wanted
        else await group_ids(admin)
    )


def split_partitions(text: str, option: str) -> tuple[str, list[int] | None]:
    """Return the topic and the partitions of a text like ``orders`` or ``orders:0,2-4``.

    The partitions are None if the text has no colon.

    Raises:
        BadParameter: the part after the colon is not a list of numbers or ranges.
    """
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    found: list[int] = []
    for part in numbers.split(","):
        match = PARTITION_RANGE.fullmatch(part.strip())
        if match is None:
            raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,2-4", param_hint=option)
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + MAX_RANGE:
            raise click.BadParameter(f"{text!r} names no range of partitions", param_hint=option)
        found += range(first, last + 1)
    return topic, sorted(set(found))


async def partitions_named(admin: Admin, texts: Sequence[str], option: str) -> list[TopicPartition]:
    """Return the partitions that texts of the form ``TOPIC[:0,2-4]`` name.

    TOPIC may be a pattern. Without numbers the text names all of a topic's partitions.

    Raises:
        ClickException: a partition does not exist, or a pattern matches nothing.
        KafkaError: a topic does not exist.
    """
    found: dict[TopicPartition, None] = {}
    for text in texts:
        topic, numbers = split_partitions(text, option)
        for name in await matching_topics(admin, [topic]):
            known = (await admin.describe_topics([name]))[name].topic_partitions
            chosen = (
                known if numbers is None else [TopicPartition(name, number) for number in numbers]
            )
            for where in chosen:
                if where not in known:
                    raise click.ClickException(
                        f"{name} has {counted(len(known), 'partition')}, numbered from 0: there is"
                        f" no {where.partition}"
                    )
            found.update(dict.fromkeys(chosen))
    return list(found)


# Completion


def complete_topics(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001 - click's
    incomplete: str,
) -> list[CompletionItem]:
    """Return the topics of the cluster as completions."""
    return _offered(context, incomplete, topic_names)


def complete_groups(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001 - click's
    incomplete: str,
) -> list[CompletionItem]:
    """Return the groups of the cluster as completions."""
    return _offered(context, incomplete, group_ids)


def _offered(
    context: click.Context, incomplete: str, list_names: Callable[[Admin], Awaitable[list[str]]]
) -> list[CompletionItem]:
    try:
        servers = context.params.get("bootstrap_servers") or default_servers()
        names = run(_listed, servers, list_names) if accepts_at_once(parse_servers(servers)) else []
    except (TidelogError, click.ClickException):
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


async def _listed(servers: str, list_names: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    async with open_admin(servers) as admin:
        return await list_names(admin)
