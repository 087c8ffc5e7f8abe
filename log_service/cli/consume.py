"""``tidelog consume`` prints records of a topic as text, by a format, or as JSON lines.

This module decides where reading starts, when it ends and how a record is printed. All records of a
poll are printed and flushed before the next poll, so that a group never commits a record that was
not printed.
"""

import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import click

from log_service.cli.connection import client_settings, cluster_command, open_admin
from log_service.cli.consume_queue import print_queue
from log_service.cli.names import complete_groups, complete_topics, matching_topics
from log_service.cli.numbers import Number, WholeNumber
from log_service.cli.output import counted, refuse_both, write_records
from log_service.cli.record_lines import renderer, with_markers
from log_service.cli.registry_connection import (
    RegistryAccess,
    RenderAll,
    open_renderer,
    with_registry,
)
from log_service.cli.running import in_thread
from log_service.cli.times import TimeParameter
from log_service.client.consumer.consumer import Consumer
from log_service.common.types import TopicPartition

POLL_MS = 500
POLL_RECORDS = 2_000
FORMAT_HELP = r"""Print each record like this: {topic} {partition} {offset} {timestamp}
{timestamp_ms} {key} {value} {headers}, with --queue {delivery_count}, \n, \t; or as kcat does:
%t %p %o %T %k %s %h %K %S."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that end reading: a record count, a time without a record, or end offsets.

    ``ends`` holds the end offsets that the partitions had at the start.
    """

    max_records: int | None
    timeout_s: float | None
    ends: Mapping[TopicPartition, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """The start and the end of reading. With ``is_ended`` it ends at the present end offsets."""

    partitions: tuple[int, ...]
    offset: int | None
    from_time: int | None
    is_ended: bool


@click.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics
)
@click.option(
    "-g",
    "--group",
    "group_id",
    metavar="ID",
    shell_complete=complete_groups,
    help="Read as a member of this group, and commit what was printed.",
)
@click.option(
    "-q",
    "--queue",
    "queue_id",
    metavar="ID",
    shell_complete=complete_groups,
    help="Take records out of this queue (a share group), and accept what was printed.",
)
@click.option(
    "--group-protocol",
    type=click.Choice(["classic", "consumer"]),
    help=(
        "Who divides the partitions of the group: its members (classic, the default) or the broker"
        " (consumer, KIP-848)."
    ),
)
@click.option(
    "-B",
    "--from-beginning",
    is_flag=True,
    help="Start at the first record (a group: only where it has committed nothing).",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=WholeNumber(min=0, bits=32),
    multiple=True,
    metavar="N",
    help="Read only this one; may be repeated.",
)
@click.option(
    "-o",
    "--offset",
    type=int,
    metavar="N",
    help="Start at this offset; -N starts N offsets before the end.",
)
@click.option(
    "--from-time",
    type=TimeParameter(),
    help="Start at the first record as new as this: ISO 8601, or ms since 1970.",
)
@click.option(
    "-n", "--max-records", type=WholeNumber(min=1), metavar="N", help="End after so many records."
)
@click.option("-e", "--exit-at-end", is_flag=True, help="End at the last record that is there now.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Number(min=0, min_open=True),
    metavar="SECONDS",
    help="End after so long without a record.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Print a JSON object per record; bytes that are not UTF-8 as {"base64": ...}.',
)
@click.option("-f", "--format", "template", metavar="TEXT", help=FORMAT_HELP)
@click.option("-k", "--key-separator", metavar="TEXT", help="Print key, this text, value.")
@click.option(
    "--read-committed", is_flag=True, help="Leave out the records of open and aborted transactions."
)
@click.option(
    "--control",
    is_flag=True,
    help="Print control records, too: where transactions were committed or aborted.",
)
@click.option(
    "--skip-corrupt",
    is_flag=True,
    help="Go on behind batches that cannot be read, and say which offsets are skipped.",
)
@click.option(
    "--verbose", is_flag=True, help="Tell each schema once: its id, subject, version and type."
)
@with_registry
@cluster_command
async def consume(
    *,
    names: tuple[str, ...],
    group_id: str | None,
    queue_id: str | None,
    group_protocol: str | None,
    from_beginning: bool,
    partitions: tuple[int, ...],
    offset: int | None,
    from_time: int | None,
    max_records: int | None,
    exit_at_end: bool,
    timeout_s: float | None,
    as_json: bool,
    template: str | None,
    key_separator: str | None,
    read_committed: bool,
    control: bool,
    skip_corrupt: bool,
    verbose: bool,
    registry: RegistryAccess | None,
    bootstrap_servers: str,
) -> None:
    """Print the values of TOPIC's records, one per line, until Ctrl-C.

    Only new records are printed unless an option says where to start. Several topics, or patterns
    like 'orders-*', are read together.

    \b
    tidelog consume orders --from-beginning --exit-at-end
    tidelog consume orders -p 0 -o -10 -n 10 --json
    tidelog consume orders -g billing -f '{partition}:{offset} {key} = {value}\\n'
    tidelog consume orders -B -e -f '%t/%p@%o %k %s\\n'
    tidelog consume orders -B --registry http://127.0.0.1:8081
    tidelog consume orders --queue packers -f '{value} ({delivery_count})\\n'
    """
    given = {
        "--from-beginning": from_beginning,
        "--offset": offset is not None,
        "--from-time": from_time is not None,
        "--json": as_json,
        "--format": template is not None,
        "--key-separator": key_separator is not None,
        "--group": group_id is not None,
        "--group-protocol": group_protocol is not None,
        "--partition": bool(partitions),
        "--exit-at-end": exit_at_end,
        "--read-committed": read_committed,
        "--control": control,
        "--skip-corrupt": skip_corrupt,
    }
    refuse_conflicts(given, is_queue=queue_id is not None)
    is_queue = queue_id is not None
    render = renderer(
        as_json=as_json, template=template, key_separator=key_separator, is_queue=is_queue
    )
    render = with_markers(render) if control else render
    limits = Limits(max_records=max_records, timeout_s=timeout_s, ends=None)
    places = ReadRange(
        partitions=partitions, offset=offset, from_time=from_time, is_ended=exit_at_end
    )
    settings = {"group_id": group_id, "group_protocol": group_protocol or "classic"}
    settings |= reading_settings(given)
    async with open_renderer(registry, render, is_verbose=verbose) as render_all:
        if queue_id is not None:
            await consume_queue(bootstrap_servers, names, queue_id, render_all, limits)
        else:
            await consume_topics(bootstrap_servers, names, settings, places, render_all, limits)


async def consume_topics(  # noqa: PLR0917 - the parts of one command
    bootstrap_servers: str,
    names: Sequence[str],
    settings: Mapping[str, Any],
    places: ReadRange,
    render: RenderAll,
    limits: Limits,
) -> None:
    """Print records of topics. Raises Abort after Ctrl-C."""
    is_committed_only = settings["isolation_level"] == "read_committed"
    topics, bounds = await bounds_of(bootstrap_servers, names, read_committed=is_committed_only)
    chosen = partitions_of(topics, places.partitions, bounds)
    if places.is_ended:
        limits = replace(limits, ends={where: bounds[where][1] for where in chosen})
    async with Consumer(
        bootstrap_servers, **settings, **await client_settings(bootstrap_servers)
    ) as consumer:
        if settings["group_id"] is not None:
            await consumer.subscribe(topics)
        else:
            await start_reading(consumer, chosen, bounds, places.offset, places.from_time)
        with noted_interrupts() as interrupts:
            count = await print_records(consumer, unbuffered_output(), render, limits, interrupts)
    print_end(count, interrupts)


def reading_settings(given: Mapping[str, bool]) -> dict[str, Any]:
    """Return the consumer settings for the given options. The consumer creates no topic."""
    return {
        "auto_offset_reset": "earliest" if given["--from-beginning"] else "latest",
        "isolation_level": "read_committed" if given["--read-committed"] else "read_uncommitted",
        "allow_auto_create_topics": False,
        "include_control_records": given["--control"],
        "skip_corrupt_batches": given["--skip-corrupt"],
    }


def refuse_conflicts(given: Mapping[str, bool], *, is_queue: bool) -> None:
    """Refuse options of ``consume`` that contradict each other. Raises UsageError."""

    def chosen(*options: str) -> dict[str, bool]:
        return {option: given[option] for option in options}

    starts = ("--from-beginning", "--offset", "--from-time")
    refuse_both(chosen(*starts))
    refuse_both(chosen("--json", "--format", "--key-separator"))
    refuse_beside(
        "--group", chosen("--partition", "--offset", "--from-time"), is_given=given["--group"]
    )
    if given["--group-protocol"] and not given["--group"]:
        raise click.UsageError("--group-protocol needs --group.")
    places = ("--group", "--partition", "--exit-at-end", *starts)
    kinds = ("--read-committed", "--control", "--skip-corrupt")
    refuse_beside("--queue", chosen(*places, *kinds), is_given=is_queue)


def refuse_beside(option: str, others: Mapping[str, bool], *, is_given: bool = True) -> None:
    """Refuse options that have no meaning together with ``option``. Raises UsageError."""
    for other, is_other_given in others.items():
        refuse_both({option: is_given, other: is_other_given})


async def consume_queue(
    bootstrap_servers: str, names: Sequence[str], queue_id: str, render: RenderAll, limits: Limits
) -> None:
    """Print records of a queue. Raises Abort after Ctrl-C."""
    with noted_interrupts() as interrupts:
        count = await print_queue(
            bootstrap_servers,
            names,
            queue_id,
            output=unbuffered_output(),
            render=render,
            interrupts=interrupts,
            max_records=limits.max_records,
            timeout_s=limits.timeout_s,
        )
    print_end(count, interrupts)


def print_end(count: int, interrupts: Sequence[int]) -> None:
    """Print the number of records printed. Raises Abort after Ctrl-C."""
    click.echo(counted(count, "record"), err=True)
    if interrupts:
        raise click.Abort


Bounds = Mapping[TopicPartition, tuple[int, int]]
"""The first offset of each partition, and the end that its readers see."""


async def bounds_of(
    bootstrap_servers: str, names: Sequence[str], *, read_committed: bool
) -> tuple[list[str], Bounds]:
    """Return the matching topics, and the first and end offsets of their partitions.

    Raises KafkaError if a topic does not exist.
    """
    async with open_admin(bootstrap_servers) as admin:
        topics = await matching_topics(admin, names)
        found = await admin.describe_offsets(topics)
    return topics, {
        where: (
            offsets.log_start_offset,
            offsets.last_stable_offset if read_committed else offsets.high_watermark,
        )
        for where, offsets in found.items()
    }


def partitions_of(
    topics: Sequence[str], wanted: Sequence[int], bounds: Bounds
) -> list[TopicPartition]:
    """Return the partitions to read, or all if none is named.

    Raises:
        ClickException: a partition does not exist.
    """
    chosen = [TopicPartition(topic, partition) for topic in topics for partition in wanted]
    for where in chosen:
        if where not in bounds:
            count = sum(known.topic == where.topic for known in bounds)
            raise click.ClickException(
                f"{where.topic} has {counted(count, 'partition')}, numbered from 0: there is no"
                f" {where.partition}"
            )
    return chosen or sorted(bounds)


async def start_reading(
    consumer: Consumer,
    chosen: Sequence[TopicPartition],
    bounds: Bounds,
    offset: int | None,
    time_ms: int | None,
) -> None:
    """Assign the partitions, and seek to the time or the offset, if one is given."""
    consumer.assign(chosen)
    if time_ms is not None:
        await consumer.seek_to_time(dict.fromkeys(chosen, time_ms))
    elif offset is not None:
        for where in chosen:
            await consumer.seek(where, first_offset(where, offset, *bounds[where]))


def first_offset(where: TopicPartition, offset: int, start: int, end: int) -> int:
    """Return the offset at which reading starts, at least ``start``.

    A negative offset counts back from ``end``.

    Raises:
        ClickException: the offset is above ``end``.
    """
    if offset > end:
        raise click.ClickException(
            f"{where} reaches from offset {start} to {end}: there is no {offset}"
        )
    return max(offset if offset >= 0 else end + offset, start)


async def print_records(
    consumer: Consumer,
    output: BinaryIO,
    render: RenderAll,
    limits: Limits,
    interrupts: Sequence[int],
) -> int:
    """Print records until a limit is reached or Ctrl-C is noted, and return their number."""
    count = 0
    last_record_s = time.monotonic()
    patience_ms = (
        POLL_MS if limits.timeout_s is None else min(POLL_MS, int(limits.timeout_s * 1_000) + 1)
    )
    while not interrupts and (limits.max_records is None or count < limits.max_records):
        room = (
            POLL_RECORDS
            if limits.max_records is None
            else min(limits.max_records - count, POLL_RECORDS)
        )
        records = await consumer.poll(room, timeout_ms=patience_ms)
        if records:
            await in_thread(write_records, output, await render(records))
            count += len(records)
            last_record_s = time.monotonic()
        elif limits.timeout_s is not None and time.monotonic() - last_record_s >= limits.timeout_s:
            break
        if limits.ends is not None and await is_at_end(consumer, limits.ends):
            break
    return count


def unbuffered_output() -> BinaryIO:
    """Return standard output without its buffer.

    If Ctrl-C abandons a write, its thread would hold the buffer's lock, which the interpreter needs
    at its exit.
    """
    output: BinaryIO = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    return output


@contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Yield a list that gets an item at the first Ctrl-C, so that a poll's records are all printed.

    The second Ctrl-C is handled as before the block: it interrupts.
    """
    noted: list[int] = []
    previous = signal.getsignal(signal.SIGINT)

    def note(number: int, _frame: object) -> None:
        noted.append(number)
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, previous)


async def is_at_end(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Return whether every assigned partition was read up to its end.

    Return False without an assignment.
    """
    assigned = consumer.assignment
    for where in assigned:
        if await consumer.position(where) < ends.get(where, 0):
            return False
    return bool(assigned)
