"""``tidelog records`` deletes records below an offset, of one partition or of all in a file."""

import json
from pathlib import Path
from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.names import complete_topics
from log_service.cli.numbers import WholeNumber
from log_service.cli.output import counted, json_option, print_rows
from log_service.cli.running import in_thread
from log_service.cli.standard_input import confirm
from log_service.common.types import TopicPartition


@click.group()
def records() -> None:
    """Delete records below an offset."""


@records.command(short_help="Delete records below an offset.")
@click.argument("name", required=False, shell_complete=complete_topics)
@click.option(
    "-p", "--partition", type=WholeNumber(min=0, bits=32), metavar="N", help="The partition."
)
@click.option(
    "--before",
    type=WholeNumber(min=-1),
    metavar="N",
    help="The first offset to keep; -1 deletes all that is committed.",
)
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A JSON file as kafka-delete-records reads it, for many partitions.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster_command
async def delete(
    *,
    name: str | None,
    partition: int | None,
    before: int | None,
    from_file: Path | None,
    yes: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Delete the records of a partition of topic NAME below an offset, for good.

    \b
    tidelog records delete orders -p 0 --before 1000
    tidelog records delete --from-file offsets.json
    """
    if from_file is not None:
        if name is not None or partition is not None or before is not None:
            raise click.UsageError(
                "--from-file names topics, partitions and offsets: leave the others out"
            )
        wanted = await in_thread(read_offsets, from_file)
    elif name is None or partition is None or before is None:
        raise click.UsageError("say which: NAME, --partition and --before, or --from-file")
    else:
        wanted = {TopicPartition(name, partition): before}
    if not yes:
        subject = next(iter(wanted)) if len(wanted) == 1 else counted(len(wanted), "partition")
        bound = (
            "that are committed"
            if set(wanted.values()) == {-1}
            else f"below {before}"
            if from_file is None
            else "below their offsets"
        )
        await confirm(f"Delete the records of {subject} {bound}?", "nothing was deleted")
    async with open_admin(bootstrap_servers) as admin:
        starts = await admin.delete_records(wanted)
    rows = [
        {"topic": where.topic, "partition": where.partition, "start": start}
        for where, start in sorted(starts.items())
    ]
    if as_json or len(rows) > 1:
        print_rows(rows, ["topic", "partition", "start"], as_json=as_json)
    else:
        for where, start in starts.items():
            click.echo(f"{where} now begins at offset {start}")


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Read the offsets by partition from a JSON file.

    Its form is ``{"partitions": [{"topic": ..., "partition": ..., "offset": ...}], "version": 1}``.

    Raises:
        ClickException: the file has another form.
    """
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        found = {
            TopicPartition(str(each["topic"]), int(each["partition"])): int(each["offset"])
            for each in content["partitions"]
        }
    except (ValueError, KeyError, TypeError) as error:
        shape = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 10}], "version": 1}'
        raise click.ClickException(f"{path} is not like {shape}: {error}") from error
    if not found:
        raise click.ClickException(f"{path} names no partition")
    return found
