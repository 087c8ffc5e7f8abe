"""``tidelog offsets`` prints the first and end offsets of partitions, or the offset of a time."""

from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.names import complete_topics, matching_topics, partitions_named
from log_service.cli.output import json_option, print_rows
from log_service.cli.times import TimeParameter
from log_service.client.admin.values import FoundOffset, OffsetSpec
from log_service.common.types import TopicPartition

SPECS = {
    "earliest": OffsetSpec.earliest,
    "latest": OffsetSpec.latest,
    "max-timestamp": OffsetSpec.max_timestamp,
}


class AtParameter(click.ParamType[OffsetSpec]):
    """``earliest``, ``latest``, ``max-timestamp``, or a time."""

    name = "at"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> OffsetSpec:
        """Return the offset specification that the text names, or fail with a usage error."""
        if isinstance(value, OffsetSpec):
            return value
        if value in SPECS:
            return SPECS[value]()
        try:
            return OffsetSpec.at(TimeParameter().convert(value, param, ctx))
        except (click.BadParameter, ValueError):
            self.fail(
                f"{value!r} is none of {', '.join(SPECS)}, and no time like 2026-11-21T10:00 or"
                " milliseconds since 1970",
                param,
                ctx,
            )


@click.command()
@click.argument("names", nargs=-1, metavar="[TOPIC[:0,2-4]...]", shell_complete=complete_topics)
@click.option(
    "--at",
    "spec",
    type=AtParameter(),
    metavar="WHAT",
    help=(
        "Only the offset of: earliest, latest, max-timestamp, or a time (ISO 8601, or ms since"
        " 1970)."
    ),
)
@click.option(
    "--read-committed", is_flag=True, help="The end that readers of committed records see."
)
@click.option(
    "--internal",
    is_flag=True,
    help="Include the topics that the broker keeps for itself, where none are named.",
)
@json_option
@cluster_command
async def offsets(
    *,
    names: tuple[str, ...],
    spec: OffsetSpec | None,
    read_committed: bool,
    internal: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Show the first and end offset of each partition, or with --at one offset of each.

    Without TOPIC that is all topics.

    \b
    tidelog offsets orders
    tidelog offsets 'orders-*' --at 2026-11-21T10:00
    tidelog offsets orders:0 --at max-timestamp --json
    """
    async with open_admin(bootstrap_servers) as admin:
        wanted = names or tuple(await matching_topics(admin, (), is_internal_included=internal))
        partitions = sorted(await partitions_named(admin, wanted, "TOPIC"))
        isolation = "read_committed" if read_committed else "read_uncommitted"
        if spec is not None:
            found = (
                await admin.list_offsets(dict.fromkeys(partitions, spec), isolation_level=isolation)
                if partitions
                else {}
            )
            rows = [found_row(where, found[where]) for where in partitions]
            columns = ["topic", "partition", "offset", "timestamp"]
        else:
            bounds = (
                await admin.describe_offsets(sorted({where.topic for where in partitions}))
                if partitions
                else {}
            )
            rows = []
            for where in partitions:
                start, end = bounds[where].log_start_offset, bounds[where].high_watermark
                if read_committed:
                    end = bounds[where].last_stable_offset
                rows.append(
                    {
                        "topic": where.topic,
                        "partition": where.partition,
                        "start": start,
                        "end": end,
                        "records": end - start,
                    }
                )
            columns = ["topic", "partition", "start", "end", "records"]
    print_rows(rows, columns, as_json=as_json, empty="there are no topics")


def found_row(where: TopicPartition, found: FoundOffset) -> dict[str, Any]:
    """Return a partition's offset as a row. A field without a value is None."""
    return {
        "topic": where.topic,
        "partition": where.partition,
        "offset": found.offset if found.offset >= 0 else None,
        "timestamp": found.timestamp_ms if found.timestamp_ms >= 0 else None,
        "leader_epoch": found.leader_epoch if found.leader_epoch >= 0 else None,
    }
