"""``tidelog log dump`` prints the files of a log, tidelog's or Apache Kafka's, without a broker.

Reads segments, indexes, producer snapshots and checkpoints by their names. Never writes. Reports
damage with its position, and shows everything before it.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import click

from log_service.cli.log_verify import checked, whole_entries
from log_service.cli.output import aligned, for_terminal, narrowed, print_rows, say, terminal_width
from log_service.cli.record_lines import as_json_value
from log_service.common.errors import TidelogError
from log_service.common.types import CLUSTER_METADATA_TOPIC, GROUP_METADATA_TOPIC
from log_service.config.describe import broker_key
from log_service.coordinator.group.records import codec as group_records
from log_service.metadata.image import ResourceType
from log_service.protocol.schema import Struct
from log_service.protocol.stored.metadata_records import ConfigRecord
from log_service.protocol.stored.serde import decode_metadata_record
from log_service.records.batch import (
    BatchHeader,
    batch_view,
    is_crc_valid,
    iterate_records,
    parse_header,
)
from log_service.records.control import iterate_control_records
from log_service.records.record import Record
from log_service.storage.aborted_transactions import INDEX_ENTRY as TRANSACTION_INDEX_ENTRY
from log_service.storage.indexes import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from log_service.storage.producer_snapshots import decode_snapshot

Row = dict[str, Any]
Decode = Callable[[Record], Any]

TOPIC_DECODERS = {CLUSTER_METADATA_TOPIC: "metadata", GROUP_METADATA_TOPIC: "offsets"}
MAX_SHOWN_BYTES = 120
HIDDEN = "[hidden]"


@click.group()
def log() -> None:
    """Inspect a log's files on disk."""


@log.command(short_help="Show what files of a log say.")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="PATH...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--records", "with_records", is_flag=True, help="Open the batches and show every record."
)
@click.option(
    "--decode",
    type=click.Choice(["auto", "text", "metadata", "offsets"]),
    default="auto",
    show_default=True,
    help=(
        "What records are: text, metadata records, groups and offsets, or what the directory's name"
        " says."
    ),
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per entry.")
def dump(*, paths: tuple[Path, ...], with_records: bool, decode: str, as_json: bool) -> None:
    """Print the entries of the files PATH. A directory means all of its files.

    Reads segments (.log), snapshots of the metadata log (.checkpoint), indexes (.index, .timeindex,
    .txnindex), producer snapshots (.snapshot) and checkpoints.

    Exit code 1 if a file is damaged. The part before the damage is shown.

    \b
    tidelog log dump logs/flights-0
    tidelog log dump --records logs/flights-0/00000000000000000000.log
    """
    is_damaged = False
    for path in files_of(paths):
        if not as_json:
            click.echo(f"{path}  ({path.stat().st_size:,} bytes)")
        rows: list[Row] = []
        try:
            for row in rows_of(path, decode_of(path, decode) if with_records else None):
                rows.append(row)
                if as_json:
                    click.echo(
                        for_terminal(
                            json.dumps(
                                {"file": path.name, **row}, default=whole, ensure_ascii=False
                            )
                        )
                    )
        except (TidelogError, struct.error, ValueError) as error:
            is_damaged = True
            say(f"{path}: {error}", err=True)
        if not as_json:
            click.echo(table_of([cut(row) for row in rows], columns_of(rows)) + "\n")
    if is_damaged:
        raise click.exceptions.Exit(1)


@log.command(short_help="Check segments against their indexes.")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="DIRECTORY...",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of a table.")
def verify(*, paths: tuple[Path, ...], as_json: bool) -> None:
    """Check the logs in directories: checksums, readable records, rising offsets and indexes.

    Records have to be readable by clients, and indexes have to point where they should. A batch
    that no client can read is named with partition, offsets and reason; consumers continue after
    it with --skip-corrupt.

    Exit code 1 if something is wrong; the table says what. The broker that owns the files should
    be stopped.

    \b
    tidelog log verify logs/flights-0
    tidelog log verify logs
    """
    rows = [checked(segment) for path in paths for segment in segments_of(path)]
    columns = ["segment", "batches", "records", "bytes", "problems"]
    print_rows(rows, columns, as_json=as_json, empty="there are no segments", flexible=["segment"])
    if any(row["problems"] for row in rows):
        raise click.exceptions.Exit(1)


def segments_of(directory: Path) -> list[Path]:
    """Return the segments of a partition's directory, or of all partitions in a log directory.

    Raises:
        ClickException: there are none, so that nothing would be checked.
    """
    for pattern in ("*.log", "*/*.log"):
        found = sorted(path for path in directory.glob(pattern) if path.stem.isdecimal())
        if found:
            return found
    raise click.ClickException(
        f"{directory} holds no segments: name a partition's directory, or the log directory that it"
        " lies in"
    )


def decode_of(path: Path, decode: str) -> str:
    """Return the type of a segment's records. ``auto`` derives it from the directory's name."""
    if decode != "auto":
        return decode
    topic = path.resolve().parent.name.rpartition("-")[0]
    return TOPIC_DECODERS.get(topic, "text")


def table_of(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return rows as a table that fits the terminal, with long values cut."""
    if not rows:
        return "(empty)"
    width = terminal_width()
    shown: Sequence[Mapping[str, Any]] = rows
    for column in ("value", "headers", "key") if width is not None else ():
        shown = narrowed(shown, columns, column, width or 0)
    return aligned(shown, columns)


def files_of(paths: tuple[Path, ...]) -> Iterator[Path]:
    """Iterate over the named files, and over the files of the named directories.

    In a directory segments come first, then the files that belong to them.
    """
    kinds = [*READERS, ""]
    for path in paths:
        if path.is_dir():
            found = [inner for inner in path.iterdir() if inner.is_file() and inner.suffix in kinds]
            yield from sorted(found, key=lambda inner: (kinds.index(inner.suffix), inner.name))
        else:
            yield path


def rows_of(path: Path, decode: str | None) -> Iterator[Row]:
    """Yield a file's entries as rows. With ``decode``, a segment has a row for each record."""
    if path.suffix in {".log", ".checkpoint"} and path.stem.split("-")[0].isdigit():
        yield from batches(path, decode)
    else:
        yield from READERS.get(path.suffix, lines)(path)


def batches(path: Path, decode: str | None) -> Iterator[Row]:
    """Yield a row for each batch of a segment, or with ``decode`` for each record."""
    content = path.read_bytes()
    position = 0
    while position < len(content):
        header = parse_header(content, position)
        batch = batch_view(content, position)
        if decode is None:
            yield batch_row(position, header, is_valid=is_crc_valid(batch))
        elif header.is_control:
            for control in iterate_control_records(content, position):
                name = control.type.name.lower() if control.type is not None else "unknown"
                yield {
                    "offset": control.offset,
                    "timestamp": control.timestamp,
                    "type": f"control: {name}",
                    "value": control.value,
                }
        else:
            for record in iterate_records(content, position):
                yield record_row(record, DECODERS[decode])
        position += header.size_bytes


def batch_row(position: int, header: BatchHeader, *, is_valid: bool) -> Row:
    """Return a batch as a row, from its header."""
    flags = [
        name
        for name, is_set in (
            ("control", header.is_control),
            ("transactional", header.is_transactional),
        )
        if is_set
    ]
    return {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size_bytes,
        "epoch": header.partition_leader_epoch,
        "max_timestamp": header.max_timestamp,
        "codec": header.compression.name.lower(),
        "producer": (
            f"{header.producer_id}/{header.producer_epoch}@{header.base_sequence}"
            if header.has_producer_id
            else None
        ),
        "flags": flags or None,
        "crc": "valid" if is_valid else "WRONG",
    }


def record_row(record: Record, decode: Decode) -> Row:
    """Return a record as a row. One that does not decode is shown as text with the reason."""
    row: Row = {"offset": record.offset, "timestamp": record.timestamp}
    try:
        decoded = decode(record)
    except TidelogError as error:
        return {**row, "key": record.key, "value": record.value, "error": str(error)}
    if isinstance(decoded, dict):
        return row | decoded
    return {**row, "type": type(decoded).__name__, "value": decoded}


def as_text(record: Record) -> Row:
    """Return a record as a row, with key, value and headers as text."""
    return {"key": record.key, "value": record.value, "headers": list(record.headers) or None}


def as_group_record(record: Record) -> Any:
    """Decode a record of ``__consumer_offsets``."""
    return group_records.decode(record.key or b"", record.value) or as_text(record)


DECODERS: dict[str, Decode] = {
    "text": as_text,
    "metadata": lambda record: decode_metadata_record(record.value or b""),
    "offsets": as_group_record,
}


def offset_index(path: Path) -> Iterator[Row]:
    """Yield the entries of an offset index: 8 bytes each, relative to the base offset."""
    base_offset = int(path.stem)
    for relative, position in OFFSET_INDEX_ENTRY.iter_unpack(
        whole_entries(path, OFFSET_INDEX_ENTRY.size)
    ):
        if relative or position:
            yield {"offset": base_offset + relative, "position": position}


def time_index(path: Path) -> Iterator[Row]:
    """Yield the entries of a time index. An entry has 12 bytes."""
    base_offset = int(path.stem)
    for timestamp, relative in TIME_INDEX_ENTRY.iter_unpack(
        whole_entries(path, TIME_INDEX_ENTRY.size)
    ):
        if timestamp > 0 or relative:
            yield {"timestamp": timestamp, "offset": base_offset + relative}


def transaction_index(path: Path) -> Iterator[Row]:
    """Yield the aborted transactions of a segment: 34 bytes each."""
    content = whole_entries(path, TRANSACTION_INDEX_ENTRY.size)
    for version, producer_id, first, last, stable in TRANSACTION_INDEX_ENTRY.iter_unpack(content):
        yield {
            "version": version,
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }


def producer_snapshot(path: Path) -> Iterator[Row]:
    """Yield the producers of a snapshot."""
    for entry in decode_snapshot(path.read_bytes()):
        yield {name: getattr(entry, name) for name in type(entry).__slots__}


def lines(path: Path) -> Iterator[Row]:
    """Yield the lines of a small text file."""
    for line in path.read_text(errors="replace").splitlines():
        yield {"line": line}


READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".log": lines,
    ".checkpoint": lines,
    ".index": offset_index,
    ".timeindex": time_index,
    ".txnindex": transaction_index,
    ".properties": lines,
    ".snapshot": producer_snapshot,
    ".metadata": lines,
}


def shown(value: bytes | None) -> str | None:
    """Return bytes as text, shortened if it is long, or in hexadecimal if they are not text."""
    if value is None:
        return None
    cut = value[:MAX_SHOWN_BYTES]
    try:
        text = cut.decode("utf-8")
    except UnicodeDecodeError:
        text = "0x" + cut.hex()
    return text if len(value) <= MAX_SHOWN_BYTES else f"{text}... ({len(value):,} bytes)"


def columns_of(rows: list[Row]) -> list[str]:
    """Return the names of all fields of the rows, in the order in which they first occur."""
    return list(dict.fromkeys(name for row in rows for name in row))


def cut(row: Row) -> Row:
    """Return a row for a table, with long values cut."""
    return {name: printable(value) for name, value in row.items()}


def open_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a decoded record, with secrets hidden.

    The keys of users and the passwords of brokers would let their reader log in.
    """
    parts = asdict(value)
    if isinstance(value, ConfigRecord):
        # Its repr hides every value; a dump shows values that are not secret.
        hidden = (
            ["value"]
            if value.resource_type == ResourceType.BROKER and _is_secret(value.name)
            else []
        )
    elif isinstance(value, Struct):
        hidden = [each.name for each in value.SCHEMA.fields if each.is_secret]
    else:
        hidden = [each.name for each in fields(value) if not each.repr]
    return parts | {name: HIDDEN for name in hidden if parts[name]}


def _is_secret(name: str) -> bool:
    key = broker_key(name)
    return key is None or key.is_sensitive


def printable(value: Any) -> Any:
    """Convert a value to a form that can be printed in a table's cell."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            name: printable(part)
            for name, part in open_fields(value).items()
            if part not in (None, [], ())
        }
    if isinstance(value, bytes):
        return shown(value)
    if isinstance(value, tuple):
        return "=".join(str(printable(part)) for part in value)
    if isinstance(value, list):
        return [printable(part) for part in value]
    return value if isinstance(value, int | str | float | dict | None) else str(value)


def whole(value: Any) -> Any:
    """Convert a value that has no JSON form to one that has, without cutting it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            name: part for name, part in open_fields(value).items() if part not in (None, [], ())
        }
    return as_json_value(value) if isinstance(value, bytes) else str(value)
