"""Reads typed names of topics, partitions and groups, and completes them for the shell.

Decides what a pattern is (``*``, ``?``, ``[...]`` as in a shell) and how partitions are written
(``orders:0,2-4``). A pattern without a match is an error, because the user meant something by it.
Completion asks the cluster only if a server accepts a connection at once. It reports no errors,
because a shell is waiting.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

import click
from click.shell_completion import CompletionItem

from log_service.cli.connection import accepts_at_once, open_admin
from log_service.cli.output import default_servers
from log_service.client.blocking.admin import BlockingAdmin
from log_service.common.errors import TidelogError
from log_service.common.types import TopicPartition
from log_service.config.client import parse_servers

PARTITION_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MAX_RANGE = 100_000


def is_pattern(name: str) -> bool:
    """Return whether a name has a character of a pattern, which no topic's name has."""
    return any(letter in name for letter in "*?[")


def matching(wanted: Sequence[str], list_names: Callable[[], Iterable[str]], what: str) -> list[str]:
    """Return the wanted names, each once, with patterns replaced by their matches.

    Names are listed only if there is a pattern.

    Raises:
        ClickException: a pattern matches nothing.
    """
    if not any(map(is_pattern, wanted)):
        return list(dict.fromkeys(wanted))
    known = sorted(list_names())
    found: dict[str, None] = {}
    for name in wanted:
        matched = [name] if name in known or not is_pattern(name) else [each for each in known if fnmatchcase(each, name)]
        if not matched:
            raise click.ClickException(f"no {what} matches {name!r}; see: tidelog {what}s list")
        found.update(dict.fromkeys(matched))
    return list(found)


def matching_topics(admin: BlockingAdmin, wanted: Sequence[str], *, is_internal_included: bool = False) -> list[str]:
    """Return topics by name or pattern, or all where none is named."""

    def listed() -> list[str]:
        return [topic.name for topic in admin.list_topics(is_internal_included=is_internal_included)]

    return matching(wanted, listed, "topic") if wanted else listed()


def matching_groups(admin: BlockingAdmin, wanted: Sequence[str]) -> list[str]:
    """Return groups by id or pattern, or all where none is named."""

    def listed() -> list[str]:
        return [group.group_id for group in admin.list_groups()]

    return matching(wanted, listed, "group") if wanted else listed()


def split_partitions(text: str, option: str) -> tuple[str, list[int] | None]:
    """Return the topic and the partitions of a text like ``orders`` or ``orders:0,2-4``.

    The partitions are None where the text has no colon.

    Raises:
        BadParameter: the part behind the colon is no list of numbers or ranges.
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


def partitions_named(admin: BlockingAdmin, texts: Sequence[str], option: str) -> list[TopicPartition]:
    """Return the partitions that ``TOPIC[:0,2-4]`` texts name.

    TOPIC may be a pattern. Without numbers the text names all of a topic's partitions.

    Raises:
        ClickException: a partition does not exist, a pattern matches nothing.
        KafkaError: a topic does not exist.
    """
    found: dict[TopicPartition, None] = {}
    for text in texts:
        topic, numbers = split_partitions(text, option)
        for name in matching_topics(admin, [topic]):
            known = admin.describe_topics([name])[name].topic_partitions
            chosen = known if numbers is None else [TopicPartition(name, number) for number in numbers]
            for where in chosen:
                if where not in known:
                    raise click.ClickException(f"{name} has {len(known)} partitions, numbered from 0: there is no {where.partition}")
            found.update(dict.fromkeys(chosen))
    return list(found)


# Completion


def complete_topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's
    """Offer the topics of the cluster."""
    return _offered(context, incomplete, lambda admin: [topic.name for topic in admin.list_topics()])


def complete_groups(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's
    """Offer the groups of the cluster."""
    return _offered(context, incomplete, lambda admin: [group.group_id for group in admin.list_groups()])


def _offered(context: click.Context, incomplete: str, list_names: Callable[[BlockingAdmin], list[str]]) -> list[CompletionItem]:
    try:
        servers = context.params.get("bootstrap_servers") or default_servers()
        if not accepts_at_once(parse_servers(servers)):
            return []
        with open_admin(servers) as admin:
            names = list_names(admin)
    except (TidelogError, click.ClickException):
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
