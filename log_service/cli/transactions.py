"""``tidelog transactions`` shows the transactions that transaction coordinators know.

It also aborts transactions that nothing else ends.
"""

from collections.abc import Sequence
from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.group_resets import DurationParameter
from log_service.cli.names import complete_topics, matching, partitions_named, split_partitions
from log_service.cli.numbers import WholeNumber
from log_service.cli.output import counted, json_option, print_json, print_result, print_rows, say
from log_service.cli.standard_input import confirm
from log_service.client.admin.admin import Admin
from log_service.client.admin.values import (
    HangingTransaction,
    ProducerDescription,
    TransactionDescription,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition

STATES = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
]
LONGEST = "15m"
"""The brokers' default of transaction.max.timeout.ms."""


@click.group()
def transactions() -> None:
    """List and describe transactions, find those that hang, and abort them."""


@transactions.command("list", short_help="List all transactional ids.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help="Only ids in this state (Ongoing, CompleteCommit, ...); may be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    multiple=True,
    type=WholeNumber(min=0),
    metavar="N",
    help="Only of this producer; may be repeated.",
)
@click.option(
    "--longer-than",
    type=DurationParameter(),
    metavar="DURATION",
    help="Only transactions open for longer: 90s, 5m, 1d, ...",
)
@click.option(
    "--pattern", metavar="REGEX", help="Only ids that match the whole of this regular expression."
)
@json_option
@cluster_command
async def list_transactions(
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: int | None,
    pattern: str | None,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """List the transactional ids that the coordinators know, with their states.

    \b
    tidelog transactions list --state ongoing --longer-than 5m
    """
    async with open_admin(bootstrap_servers) as admin:
        found = await admin.list_transactions(
            states=states,
            producer_ids=producer_ids,
            running_longer_than_ms=longer_than,
            transactional_id_pattern=pattern,
        )
    rows = [
        {
            "transactional_id": each.transactional_id,
            "producer_id": each.producer_id,
            "state": each.state,
        }
        for each in found
    ]
    is_filtered = bool(states or producer_ids or pattern) or longer_than is not None
    empty = "no transactional id is like that" if is_filtered else "there are no transactional ids"
    columns = ["transactional_id", "producer_id", "state"]
    print_rows(rows, columns, as_json=as_json, empty=empty, flexible=["transactional_id"])


@transactions.command(short_help="Show producer, state and partitions.")
@click.argument("transactional_ids", nargs=-1, metavar="[IDS...]")
@json_option
@cluster_command
async def describe(
    *, transactional_ids: tuple[str, ...], as_json: bool, bootstrap_servers: str
) -> None:
    """Describe transactional IDS, which may be patterns like 'copy-*', or all.

    Shows coordinator, producer, state, and open partitions.
    """
    async with open_admin(bootstrap_servers) as admin:
        wanted = await ids_named(admin, transactional_ids)
        found = await admin.describe_transactions(wanted) if wanted else {}
    documents = [described(found[each]) for each in wanted]
    if as_json:
        print_json(
            documents[0] if len(transactional_ids) == 1 and len(documents) == 1 else documents
        )
        return
    columns = [
        "transactional_id",
        "coordinator",
        "producer_id",
        "epoch",
        "state",
        "timeout_ms",
        "start_time_ms",
        "partitions",
    ]
    flexible = ["partitions", "transactional_id"]
    print_rows(
        documents,
        columns,
        as_json=False,
        empty="there are no transactional ids",
        flexible=flexible,
        times=["start_time_ms"],
    )


async def ids_named(admin: Admin, wanted: Sequence[str]) -> list[str]:
    """Return transactional ids by name or pattern, or all if none is named."""

    async def listed() -> list[str]:
        return [each.transactional_id for each in await admin.list_transactions()]

    return await matching(wanted, listed, "transaction") if wanted else await listed()


def described(transaction: TransactionDescription) -> dict[str, Any]:
    """Return everything that is known about a transactional id."""
    return {
        "transactional_id": transaction.transactional_id,
        "coordinator": transaction.coordinator.node_id,
        "producer_id": transaction.producer_id,
        "epoch": transaction.producer_epoch,
        "state": transaction.state,
        "timeout_ms": transaction.timeout_ms,
        "start_time_ms": transaction.start_time_ms if transaction.start_time_ms >= 0 else None,
        "partitions": [str(each) for each in transaction.partitions],
    }


@transactions.command("find-hanging", short_help="Find what no coordinator will end.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,2-4]",
    shell_complete=complete_topics,
    help="A topic, or some of its partitions; may be repeated. Default: all.",
)
@click.option(
    "--open-for",
    type=DurationParameter(),
    default=LONGEST,
    show_default=True,
    metavar="DURATION",
    help="Leave younger ones out; at least the brokers' transaction.max.timeout.ms.",
)
@json_option
@cluster_command
async def find_hanging(
    *, topics: tuple[str, ...], open_for: int, as_json: bool, bootstrap_servers: str
) -> None:
    """Find open transactions that no coordinator knows.

    Readers of committed records wait for them for ever.
    """
    async with open_admin(bootstrap_servers) as admin:
        partitions = await partitions_named(admin, topics, "--topic") if topics else None
        found = await admin.find_hanging_transactions(partitions, open_longer_than_ms=open_for)
    columns = [
        "topic",
        "partition",
        "start_offset",
        "producer_id",
        "epoch",
        "last_timestamp_ms",
        "transactional_id",
    ]
    rows, times = [hanging_row(each) for each in found], ["last_timestamp_ms"]
    print_rows(
        rows,
        columns,
        as_json=as_json,
        empty="no transaction hangs",
        flexible=["transactional_id"],
        times=times,
    )
    if found and not as_json:
        where = found[0].topic_partition
        hint = (
            f"tidelog transactions abort {where.topic}:{where.partition} --start-offset"
            f" {found[0].start_offset}"
        )
        say(f"{counted(len(found), 'transaction')}; one is ended by: {hint}", err=True)


def hanging_row(transaction: HangingTransaction) -> dict[str, Any]:
    """Return a hanging transaction as one row."""
    return {
        "topic": transaction.topic_partition.topic,
        "partition": transaction.topic_partition.partition,
        "start_offset": transaction.start_offset,
        "producer_id": transaction.producer_id,
        "epoch": transaction.producer_epoch,
        "coordinator_epoch": transaction.coordinator_epoch,
        "last_timestamp_ms": transaction.last_timestamp_ms,
        "transactional_id": transaction.transactional_id,
    }


@transactions.command(short_help="Abort one in one partition.")
@click.argument("partition", metavar="TOPIC:PARTITION", shell_complete=complete_topics)
@click.option(
    "--start-offset",
    type=WholeNumber(min=0),
    required=True,
    metavar="N",
    help="Where it begins; see: find-hanging.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster_command
async def abort(
    *, partition: str, start_offset: int, yes: bool, as_json: bool, bootstrap_servers: str
) -> None:
    """Abort the transaction of one partition that begins at an offset, without its coordinator.

    Use it only for transactions that find-hanging shows. If the producer is alive, its records
    are lost.

    \b
    tidelog transactions abort orders:0 --start-offset 1042
    """
    where = one_partition(partition)
    async with open_admin(bootstrap_servers) as admin:
        found = beginning_at(where, (await admin.describe_producers([where]))[where], start_offset)
        if not yes:
            await confirm(
                f"Abort the transaction of producer {found.producer_id} in {where} from offset"
                f" {start_offset}?",
                "nothing was aborted",
            )
        try:
            await admin.abort_transaction(found)
        except KafkaError as error:
            if error.code not in {
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                ErrorCode.INVALID_PRODUCER_EPOCH,
            }:
                raise
            text = (
                f"the transaction has gone on meanwhile ({error.code.name}): nothing was aborted;"
                " see: tidelog transactions find-hanging"
            )
            raise click.ClickException(text) from error
    print_result(
        f"aborted the transaction of producer {found.producer_id} in {where}",
        hanging_row(found),
        as_json=as_json,
    )


def one_partition(text: str) -> TopicPartition:
    """Return the one partition that the text names.

    Raises:
        BadParameter: the text names no partition, or several.
    """
    topic, numbers = split_partitions(text, "TOPIC:PARTITION")
    if numbers is None or len(numbers) != 1:
        raise click.BadParameter(
            f"{text!r} does not name one partition, like orders:0", param_hint="TOPIC:PARTITION"
        )
    return TopicPartition(topic, numbers[0])


def beginning_at(
    where: TopicPartition, producers: Sequence[ProducerDescription], start_offset: int
) -> HangingTransaction:
    """Return the open transaction of a partition that begins at an offset.

    Raises:
        ClickException: no transaction begins there. The text names the open transactions.
    """
    for each in producers:
        if each.transaction_start_offset == start_offset:
            return HangingTransaction(
                topic_partition=where,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                coordinator_epoch=each.coordinator_epoch,
                start_offset=start_offset,
                last_timestamp_ms=each.last_timestamp_ms,
            )
    begins = sorted(
        each.transaction_start_offset for each in producers if each.transaction_start_offset >= 0
    )
    known = (
        f"those that are open begin at {', '.join(map(str, begins))}"
        if begins
        else "none is open there"
    )
    raise click.ClickException(
        f"no transaction of {where} begins at offset {start_offset}: {known}"
    )
