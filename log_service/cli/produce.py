"""``tidelog produce`` sends lines of standard input or a file as records.

A line is a value, a key and a value, or JSON.
"""

import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO

import click

from log_service.cli.connection import API_TIMEOUT_MS, client_settings, cluster_command
from log_service.cli.names import complete_topics
from log_service.cli.numbers import WholeNumber
from log_service.cli.output import counted, refuse_both
from log_service.cli.record_lines import LineError, NewRecord, Parse, parser
from log_service.cli.registry_connection import (
    RegistryAccess,
    extra_needed,
    open_registry,
    with_registry,
)
from log_service.cli.standard_input import LineReader, read_all
from log_service.client.producer.producer import Producer
from log_service.common.errors import KafkaError

PROGRESS_EVERY = 1_000
PATIENCE_S = 2.0
SENDER = "log_service.client.producer.sender"
MAX_RECORD_BYTES = 64 << 20


class Patience(logging.Handler):
    """Prints the reason for retries after ``PATIENCE_S`` without an outcome for any record.

    It is a handler of the producer's log records about batches that are sent again.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Start the timer of the reason. Pass errors on to the root logger's handlers."""
        if record.levelno >= logging.ERROR:
            logging.getLogger().callHandlers(record)
        elif self._timer is None:
            self._timer = threading.Timer(
                PATIENCE_S, click.echo, [f"waiting: {record.getMessage()}"], {"err": True}
            )
            self._timer.daemon = True
            self._timer.start()

    def settle(self) -> None:
        """Stop the timer, because a record has an outcome."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Receive the producer's log records about retries within a ``with`` block."""
        logger = logging.getLogger(SENDER)
        if logger.isEnabledFor(logging.DEBUG):  # --verbose shows it all
            yield
            return
        before = logger.level, logger.propagate
        logger.addHandler(self)
        logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.level, logger.propagate = before
            self.settle()


class Deliveries:
    """Counts the sent records and their failures."""

    def __init__(self) -> None:
        self.sent_count = 0
        self.failures: list[KafkaError] = []
        self.patience = Patience()

    def on_delivery(self, _metadata: object, error: KafkaError | None) -> None:
        """Note the outcome of a record."""
        self.patience.settle()
        if error is not None:
            self.failures.append(error)

    def show_progress(self) -> None:
        """Print the number of records on a terminal."""
        if self.sent_count % PROGRESS_EVERY == 0 and sys.stderr.isatty():
            click.echo(f"\r{self.sent_count:,} records", nl=False, err=True)

    def sum_up(self) -> None:
        """Print the outcome. Raises ClickException if a record was not acknowledged."""
        if sys.stderr.isatty() and self.sent_count >= PROGRESS_EVERY:
            click.echo("\r", nl=False, err=True)
        if self.failures:
            raise click.ClickException(
                f"{len(self.failures):,} of {self.sent_count:,} records were not acknowledged; the"
                f" first: {self.failures[0]}"
            )
        click.echo(f"{counted(self.sent_count, 'record')} acknowledged", err=True)


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-f",
    "--file",
    "sources",
    type=click.File("rb"),
    multiple=True,
    default=("-",),
    metavar="FILE",
    help="Read lines from here (default: standard input); may be repeated.",
)
@click.option("--whole-files", is_flag=True, help="Each file is one record, whatever is in it.")
@click.option("--key", "fixed_key", metavar="TEXT", help="The key of every record.")
@click.option(
    "--null", "null_text", metavar="TEXT", help="A key or value that reads like this is null."
)
@click.option(
    "-k",
    "--key-separator",
    metavar="TEXT",
    help="Each line is key, this text, value; without it records have no key.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Each line is an object as 'tidelog consume --json' prints it; only value is needed.",
)
@click.option(
    "-p",
    "--partition",
    type=WholeNumber(min=0, bits=32),
    metavar="N",
    help="Send all to this partition.",
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header for every record; may be repeated.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("--tombstones", is_flag=True, help="An empty value is a tombstone (null).")
@click.option(
    "--schema",
    metavar="SUBJECT|FILE",
    help="Values are JSON, encoded by this subject's latest schema, or a file's.",
)
@click.option("--key-schema", metavar="SUBJECT|FILE", help="The same for keys.")
@with_registry
@cluster_command
async def produce(
    *,
    topic: str,
    sources: tuple[BinaryIO, ...],
    whole_files: bool,
    fixed_key: str | None,
    null_text: str | None,
    key_separator: str | None,
    as_json: bool,
    partition: int | None,
    headers: tuple[str, ...],
    compression: str,
    acks: str,
    tombstones: bool,
    schema: str | None,
    key_schema: str | None,
    registry: RegistryAccess | None,
    bootstrap_servers: str,
) -> None:
    """Send each line to TOPIC as a record, and end once all are acknowledged.

    Exit code 1 if one was not.

    \b
    seq 1000 | tidelog produce numbers
    tidelog produce orders -f orders.txt -k : --compression zstd
    tidelog consume orders -B -e --json | tidelog produce copy --json
    tidelog produce orders --schema order.avsc < orders.jsonl
    """
    pairs = parse_headers(headers)
    shapes = {"--json": as_json, "--key-separator": key_separator is not None}
    refuse_both({**shapes, "--whole-files": whole_files})
    refuse_both({"--json": as_json, "--key": fixed_key is not None, **shapes})
    schemas = {
        part: named for part, named in (("key", key_schema), ("value", schema)) if named is not None
    }
    parse = parser(
        as_json=as_json,
        key_separator=key_separator,
        is_empty_null=tombstones,
        null_text=null_text,
        fixed_key=fixed_key,
        json_parts=schemas,
    )
    if schemas:
        parse = await encoding_parser(parse, topic, schemas, registry or RegistryAccess.default())
    deliveries = Deliveries()
    with deliveries.patience.listening():
        async with Producer(
            bootstrap_servers,
            acks=acks,
            compression=compression,
            enable_idempotence=acks == "all",
            max_request_size=MAX_RECORD_BYTES,
            max_block_ms=API_TIMEOUT_MS,
            **await client_settings(bootstrap_servers),
        ) as producer:
            if partition is not None:
                require_partition(topic, await producer.partitions_for(topic), partition)
            send = partial(
                producer.send, topic, partition=partition, on_delivery=deliveries.on_delivery
            )
            for source in sources:
                if whole_files:
                    await send_all([parse(await read_all(source))], send, pairs, deliveries)
                else:
                    await send_lines(source, parse, send, pairs, deliveries)
            await producer.flush()
    deliveries.sum_up()


async def encoding_parser(
    parse: Parse, topic: str, schemas: Mapping[str, str], access: RegistryAccess
) -> Parse:
    """Return a parser that encodes keys and values by their schemas.

    ``schemas`` has a subject or a file by "key" and "value".

    Raises the errors of ``part_encoder``.
    """
    with extra_needed():
        from log_service.cli.record_schemas import (  # noqa: PLC0415 - an extra
            encoding,
            part_encoder,
        )
    async with open_registry(access) as registry:
        key, value = [
            await part_encoder(registry, topic, part, schemas.get(part))
            for part in ("key", "value")
        ]
    return encoding(parse, key, value)


def require_partition(topic: str, partition_count: int, partition: int) -> None:
    """Refuse a partition that a topic does not have. A producer would wait until it exists."""
    if partition >= partition_count:
        raise click.ClickException(
            f"topic {topic!r} has partitions 0 to {partition_count - 1}, not {partition}; nothing"
            " was sent: name another with --partition, or add partitions with 'tidelog topics"
            f" alter {topic} --partitions'"
        )


def parse_headers(headers: tuple[str, ...]) -> list[tuple[str, bytes | None]]:
    """Split NAME=VALUE texts, and refuse a text without an equals sign."""
    for header in headers:
        if "=" not in header:
            raise click.BadParameter(f"{header!r} is not NAME=VALUE", param_hint="--header")
    return [
        (name, value.encode()) for name, _, value in (header.partition("=") for header in headers)
    ]


async def send_lines(
    source: BinaryIO,
    parse: Parse,
    send: Callable[..., Awaitable[object]],
    headers: Sequence[tuple[str, bytes | None]],
    deliveries: Deliveries,
) -> None:
    """Read lines from a source until its end, and send each line as a record."""
    reader = LineReader(source)
    while lines := await reader.read():
        await send_all(records_of(lines, parse, deliveries.sent_count), send, headers, deliveries)


async def send_all(
    records: Iterable[NewRecord],
    send: Callable[..., Awaitable[object]],
    headers: Sequence[tuple[str, bytes | None]],
    deliveries: Deliveries,
) -> None:
    """Send records one after the other, with ``headers`` after their own."""
    for record in records:
        await send(
            record.value,
            record.key,
            headers=(*record.headers, *headers),
            timestamp_ms=record.timestamp_ms,
        )
        deliveries.sent_count += 1
        deliveries.show_progress()


def records_of(lines: Iterable[bytes], parse: Parse, sent_count: int = 0) -> Iterator[NewRecord]:
    """Yield a record for each line.

    ``sent_count`` is the number of lines before these, for the error text.

    Raises:
        ClickException: a line is not a record. The lines before it were sent.
    """
    for number, line in enumerate(lines, sent_count + 1):
        try:
            yield parse(line.removesuffix(b"\r"))
        except LineError as error:
            few = {1: "nothing was sent", 2: "the line before it was sent, nothing after it"}
            sent = few.get(number, f"the {number - 1:,} before it were sent, nothing after it")
            raise click.ClickException(f"line {number} {error}; {sent}") from error
