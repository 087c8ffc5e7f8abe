"""``tidelog produce``: records from lines of standard input or of a file."""

import sys
from collections.abc import Iterator
from typing import BinaryIO

import click

from log_service.cli.output import bootstrap_option
from log_service.client.blocking import BlockingProducer
from log_service.common.errors import KafkaError

PROGRESS_EVERY = 1_000


@click.command()
@click.argument("topic")
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="Read lines from here (default: standard input).")
@click.option("-k", "--key-separator", metavar="TEXT", help="Each line is key, this text, value; without it records have no key.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Send all to this partition.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header for every record; may be repeated.")
@click.option("--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none", show_default=True)
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("--tombstones", is_flag=True, help="An empty value is a tombstone (null).")
@bootstrap_option
def produce(
    *,
    topic: str,
    source: BinaryIO,
    key_separator: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    compression: str,
    acks: str,
    tombstones: bool,
    bootstrap_servers: str,
) -> None:
    """Send each line to TOPIC as a record, and end once all are acknowledged. Exit code 1 if one was not.

    \b
    seq 1000 | tidelog produce numbers
    tidelog produce orders -f orders.txt -k : --compression zstd
    """
    pairs = [(name, value.encode()) for name, _, value in (header.partition("=") for header in headers)]
    failures: list[KafkaError] = []

    def on_delivery(_metadata: object, error: KafkaError | None) -> None:
        if error is not None:
            failures.append(error)

    sent_count = 0
    enable_idempotence = acks == "all"
    with BlockingProducer(
        bootstrap_servers, acks=acks, compression=compression, linger_ms=5, enable_idempotence=enable_idempotence
    ) as producer:
        for key, value in records_of(source, key_separator.encode() if key_separator else None):
            final = None if tombstones and not value else value
            producer.send(topic, final, key, headers=pairs, partition=partition, on_delivery=on_delivery)
            sent_count += 1
            if sent_count % PROGRESS_EVERY == 0 and sys.stderr.isatty():
                click.echo(f"\r{sent_count:,} records", nl=False, err=True)
        producer.flush()
    if sys.stderr.isatty() and sent_count >= PROGRESS_EVERY:
        click.echo("\r", nl=False, err=True)
    if failures:
        raise click.ClickException(f"{len(failures):,} of {sent_count:,} records were not acknowledged; the first: {failures[0]}")
    click.echo(f"{sent_count:,} records acknowledged", err=True)


def records_of(source: BinaryIO, key_separator: bytes | None) -> Iterator[tuple[bytes | None, bytes]]:
    """Iterate over lines as pairs of key and value."""
    for number, raw in enumerate(source, 1):
        line = raw.rstrip(b"\r\n")
        if key_separator is None:
            yield None, line
            continue
        key, separator, value = line.partition(key_separator)
        if not separator:
            raise click.ClickException(f"line {number} has no {key_separator.decode()!r} between key and value; nothing after it was sent")
        yield key, value
