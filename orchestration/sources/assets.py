"""Makes assets of sources. A run sends new records to the topic, and reports counts.

This module decides how a source is declared, and how its run is presented: numbers that the UI
plots, a Failure that says what to do, and an asset event that the topic grew. A run that finds
nothing new materializes nothing. The sensor ``sources`` starts the runs
(``orchestration.sensing.sources``). Loading reads no environment and opens no connection.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from orchestration.lake.tables import TABLE_NAME
from orchestration.log_client.protocol import LogClient, LogServiceError
from orchestration.project.location import in_project
from orchestration.project.names import names_of
from orchestration.resources.log_service import LogServiceResource
from orchestration.settings import SettingsError, load_settings
from orchestration.sources.dropped_files import DroppedFiles, ReadAs
from orchestration.sources.reading import Source, SourceError
from orchestration.sources.run import prepared, run_source, sender_id
from orchestration.sources.sql_rows import SqlRows
from orchestration.topics.spec import TopicSpec, validate_takes_rows, validate_topic

SOURCE_PREFIX = "sources"
SOURCE_METADATA = "tidelog/source"
SQL_EVERY_S, FILES_EVERY_S = 30.0, 5.0
COMPARE_EVERY_S = 3_600.0
MakeSource = Callable[[], Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFeed:
    """The parts of a source that the sensor needs: its name, its topic, and its interval."""

    asset_key: dg.AssetKey
    source: str
    topic: str
    every_s: float


_declared: dict[str, MakeSource] = {}


def declared_source(name: str) -> Source:
    """Return the source that was declared last under ``name``, with the current settings.

    :raises KeyError: there is no such source.
    :raises SettingsError: a setting that it needs is missing.
    """
    return _declared[name]()


def sql_source(
    name: str,
    *,
    topic: TopicSpec,
    table: str,
    key: str | Sequence[str],
    cursor: str | None = None,
    columns: str | Sequence[str] = (),
    compare_every_s: float | None = COMPARE_EVERY_S,
    delay_s: float = 0.0,
    url: str | dg.EnvVar | None = None,
    every_s: float = SQL_EVERY_S,
    group_name: str = "sources",
    description: str = "",
) -> dg.AssetsDefinition:
    """Return the asset that sends the changes of a SQL table to ``topic``, each exactly once.

    ``table`` may also be a view. A row becomes a JSON object of its ``columns`` (all by default),
    with ``key`` as the record's key. A deleted row becomes a tombstone. ``cursor`` names a column
    that grows with every change (a number or a time). Rows with a greater cursor than the last sent
    row are queried every ``every_s`` seconds. Every ``compare_every_s`` seconds all rows are
    compared with the topic's value of each key. That finds deletions and changes that the cursor
    missed. Without ``cursor`` changes are only found by comparison. ``compare_every_s`` None
    disables comparisons. For a comparison the topic has to keep the newest record of each key
    (``cleanup.policy=compact``). Rows whose time in ``cursor`` is younger than ``delay_s`` seconds
    are sent later.

    ``url`` is SQLAlchemy's. ``dg.EnvVar("NAME")`` takes it from the environment, and
    ``TIDELOG_SQL_URL`` is the default.

    :raises ValueError: the declaration is not valid. The text says why.
    """
    keys = names_of(key)
    if not keys:
        raise ValueError(
            f"the source {name} needs a key: the columns that tell one row of {table} from another"
        )
    if cursor is None and compare_every_s is None:
        raise ValueError(
            f"the source {name} sees nothing: give it a cursor, comparisons (compare_every_s), or"
            " both"
        )
    validate_topic(name, topic)
    _validate_takes_json(name, topic)

    def make() -> Source:
        return SqlRows(
            url=_resolved(url) or load_settings().sql_url.reveal(),
            table=table,
            key=keys,
            cursor=cursor,
            columns=names_of(columns),
            compare_every_s=compare_every_s,
            delay_s=delay_s,
        )

    return source_asset(
        name,
        topic,
        make,
        every_s,
        "sql",
        group_name,
        description or f"Changes of the SQL table {table}",
    )


def folder_source(
    name: str,
    *,
    topic: TopicSpec,
    folder: str | Path,
    pattern: str = "*",
    read_as: ReadAs | None = None,
    key: str | None = None,
    settle_s: float = 2.0,
    every_s: float = FILES_EVERY_S,
    group_name: str = "sources",
    description: str = "",
) -> dg.AssetsDefinition:
    """Return the asset that sends files in ``folder`` to ``topic``, each record exactly once.

    ``read_as``: ``"lines"`` makes a record of each line, ``"csv"`` and ``"parquet"`` a JSON object
    of each row, ``"whole"`` one record of a file. None means that the suffix decides (``.csv``,
    ``.parquet``, lines for all others). ``key`` names the field that becomes the record's key. A
    sent file is moved to ``done/`` in the folder. An unreadable file is moved to ``rejected/``,
    with a text file that says why. A file is read after it was not changed for ``settle_s``
    seconds. Names that begin with a dot, and unfinished downloads, are ignored.

    If the topic's schema is not JSON, only whole files can be sent. Each must be one value of the
    schema.

    :raises ValueError: the declaration is not valid. The text says why.
    """
    validate_topic(name, topic)
    if read_as != "whole":
        _validate_takes_json(
            name, topic, 'or send whole files, each a value in that format (read_as="whole")'
        )

    def make() -> Source:
        return DroppedFiles(
            folder=in_project(folder), pattern=pattern, read_as=read_as, key=key, settle_s=settle_s
        )

    return source_asset(
        name,
        topic,
        make,
        every_s,
        "file",
        group_name,
        description or f"Files that are dropped into {folder}",
    )


def _validate_takes_json(name: str, topic: TopicSpec, *others: str) -> None:
    """Refuse a topic whose values are not JSON, because each record would become a dead letter.

    ``others`` are further remedies for the error's text.

    :raises ValueError: the topic's values are not JSON.
    """
    validate_takes_rows(f"the source {name}", topic)
    if topic.value_format is not None:
        advice = ", ".join(["declare it with Spark's DDL", *others])
        raise ValueError(
            f"the source {name} sends JSON, and the schema of the topic {topic.name} is another"
            f" format's: {advice}"
        )


def source_asset(  # noqa: PLR0917 - both kinds of source give all of them
    name: str,
    topic: TopicSpec,
    make: MakeSource,
    every_s: float,
    kind: str,
    group_name: str,
    description: str,
) -> dg.AssetsDefinition:
    """Return the asset of a source of any kind.

    :raises ValueError: the name is not valid for a source.
    """
    if not TABLE_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a source's name: letters, digits and underscores, not starting"
            " with a digit"
        )
    _declared[name] = make
    key = dg.AssetKey([SOURCE_PREFIX, name])
    feed = {"source": name, "topic": topic.name, "every_s": every_s}

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[
            dg.AssetSpec(
                key,
                description=description,
                kinds={kind, "kafka"},
                group_name=group_name,
                metadata={SOURCE_METADATA: dg.MetadataValue.json(feed)},
                skippable=True,
            )
        ],
        pool=f"source_{name}",
    )
    def capture(
        context: dg.AssetExecutionContext, log_service: LogServiceResource
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization]:
        with _explained(name), log_service.open() as log:
            identity = sender_id(name, load_settings().deployment)
            target = prepared(log, topic, context.log.info)
            with log.open_sender(identity) as sender:
                source = declared_source(name)
                run_id, now = context.run.run_id, datetime.now(UTC)
                sent = run_source(
                    source,
                    identity,
                    target,
                    log,
                    sender,
                    run_id=run_id,
                    now=now,
                    note=context.log.warning,
                )
            if not sent.counts:
                context.log.info("%s: nothing new", name)
                return
            yield dg.MaterializeResult(asset_key=key, metadata={"topic": topic.name, **sent.counts})
            if sent.counts["records"]:
                yield grown(name, topic, log)

    return capture


def grown(name: str, topic: TopicSpec, log: LogClient) -> dg.AssetMaterialization:
    """Return the event on the topic's asset which says that the topic has new records."""
    offsets = log.partition_offsets(topic.name)
    return dg.AssetMaterialization(
        asset_key=topic.asset_key,
        description=f"{name} sent records",
        metadata={
            "high_watermark": sum(one.high_watermark for one in offsets),
            "records_retained": sum(one.high_watermark - one.log_start_offset for one in offsets),
            "partitions": len(offsets),
        },
    )


def source_feeds(assets: Iterable[dg.AssetsDefinition]) -> tuple[SourceFeed, ...]:
    """Return the feeds of the sources among ``assets``, sorted by name."""
    found = []
    for asset in assets:
        for key, metadata in asset.metadata_by_key.items():
            declared: Any = metadata.get(SOURCE_METADATA)
            if isinstance(declared, dg.JsonMetadataValue) and isinstance(declared.value, dict):
                found.append(SourceFeed(asset_key=key, **declared.value))
    return tuple(sorted(found, key=lambda feed: feed.source))


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Translate errors of a source or the log service into a ``Failure`` that says what to do."""
    try:
        yield
    except (SourceError, LogServiceError, SettingsError) as error:
        is_passing = isinstance(error, LogServiceError) or (
            isinstance(error, SourceError) and error.is_passing
        )
        text = f"{name}: {error}. What was committed before stays; the next run goes on after it"
        raise dg.Failure(description=text, allow_retries=is_passing) from error


def _resolved(url: str | dg.EnvVar | None) -> str | None:
    """Return the URL, read from its environment variable if it is a ``dg.EnvVar``.

    :raises SettingsError: the variable is not set.
    """
    if not isinstance(url, dg.EnvVar):
        return url
    found = url.get_value()
    if found is None:
        raise SettingsError(
            f"the variable {url.env_var_name} is not set: it holds the URL of a source's database"
        )
    return found
