"""The asset of a topic's archive: ``lake/<topic>_archive``, downstream of the topic.

Decides what Dagster shows of a run: the checkpoint, the lag, and numbers under the labels that all
tables from topics have. The topic sensor starts a run when a partition has ``chunk_records``
waiting offsets, or when ``within_s`` seconds have passed (``Archive``). The Materialize button
archives all waiting records. The work itself is in ``run``.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.log_client.protocol import LogClient
from orchestration.offsets.ranges import OffsetRanges, table_of_offsets
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.retained.archive import archive_table
from orchestration.retained.archive_files import ARCHIVE_SCHEMA
from orchestration.settings import load_settings
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.archiving.kind import ArchivingKind, archive_of
from orchestration.transforms.archiving.run import ArchiveContext, ArchiveReport, run_archive
from orchestration.transforms.dagster_views import events
from orchestration.transforms.dagster_views.address import DELTA, table_address
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.reporting import run_tags
from orchestration.transforms.declarations import mirror_group, pool_of, table_key
from orchestration.transforms.kinds import TablesOfTopics, declare, register_of_topics

ARCHIVE_KINDS = {"deltalake", "archive"}


class ArchiveConfig(dg.Config):
    """Overrides of one run. Without any, the run archives all waiting records."""

    only_full_chunks: bool = Field(
        default=False, description="Leave partitions alone of which less than a chunk waits"
    )
    accept_lost_records: bool = Field(
        default=False, description="Go on where retention removed records before they were archived"
    )


def archive_asset(spec: TopicSpec, *, group_name: str = "archives") -> dg.AssetsDefinition:
    """Return the asset that archives the topic of ``spec``.

    A project gets it for each topic with ``archive``.

    :raises ValueError: ``spec`` declares no archive.
    """
    if spec.archived is None:
        raise ValueError(
            f"the topic {spec.name} declares no archive: TopicSpec(name={spec.name!r},"
            " archive=True)"
        )
    table = archive_table(spec.name)
    key = table_key(table)
    shown = dg.AssetSpec(
        key,
        deps=[spec.asset_key],
        description=(
            f"The archive of the topic {spec.name}: its records as they were. `topics.{spec.name}`"
            " in SQL reads it with the log."
        ),
        kinds=ARCHIVE_KINDS,
        group_name=group_name,
        metadata=table_address(table, DELTA),
        skippable=True,
    )

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[declare(ArchivingKind(spec), shown)],
        pool=pool_of(table),
    )
    def archive(
        context: dg.AssetExecutionContext,
        config: ArchiveConfig,
        log_service: LogServiceResource,
        lake: LakeResource,
    ) -> Iterator[dg.MaterializeResult[None]]:
        after = "What this run committed stays; the next one goes on from there"
        with explained(table, None, after), log_service.open() as log:
            run = ArchiveContext(
                log=log,
                lake=lake.open(),
                note=context.log.warning,
                pin=lambda ranges: _pin(context, table, ranges),
                run_id=context.run.run_id,
                commit_attempts=load_settings().commit_attempts,
                is_sweep=not config.only_full_chunks,
                is_loss_accepted=config.accept_lost_records,
            )
            report = run_archive(spec, run)
            if report.ranges is not None:
                _tag(context, table, report.ranges)
                _mirror(context, table, log, spec.name, report.next_offsets)
            yield from _commit_events(context, key, spec, report)

    return archive


def _pin(context: dg.AssetExecutionContext, table: str, ranges: OffsetRanges) -> None:
    """Write the table's name and the planned ranges into the run's log and tags."""
    context.log.info(
        "%s: archiving topic %s (id %s), offsets %s", table, ranges.topic, ranges.topic_id, ranges
    )
    _tag(context, table, ranges)


def _tag(context: dg.AssetExecutionContext, table: str, ranges: OffsetRanges) -> None:
    context.instance.add_run_tags(
        context.run.run_id, run_tags(table, ranges.topic, "archive", str(ranges))
    )


def _mirror(
    context: dg.AssetExecutionContext,
    table: str,
    log: LogClient,
    topic: str,
    offsets: Mapping[int, int],
) -> None:
    """Commit the archive's offsets to its consumer group, for Kafka's tools.

    They are not a checkpoint, so a failure is only logged as a warning.
    """
    group_id = mirror_group(table, load_settings().deployment)
    try:
        log.mirror_offsets(group_id, topic, offsets)
    except Exception as error:  # noqa: BLE001 - the commit stands, whatever happens here
        context.log.warning("the offsets of group %s could not be mirrored: %s", group_id, error)


def _commit_events(
    context: dg.AssetExecutionContext, key: dg.AssetKey, spec: TopicSpec, report: ArchiveReport
) -> Iterator[dg.MaterializeResult[None]]:
    """Yield the event of a commit.

    It is the commit of this run, or of an earlier run that was killed before it reported. If there
    is neither, nothing is yielded.
    """
    state = report.state
    if report.version is None and events.is_announced(
        context.instance, key, state.topic_id, state.committed
    ):
        context.log.info("nothing is to be archived of the topic %s", spec.name)
        return
    yield dg.MaterializeResult(asset_key=key, metadata=archive_metadata(report, datetime.now(UTC)))


def archive_metadata(report: ArchiveReport, now: datetime) -> dict[str, Any]:
    """Return the metadata that Dagster shows of a run."""
    state, offsets = report.state, report.next_offsets
    watermarks = {one.partition: one.high_watermark for one in state.log}
    lag = sum(
        max(one.high_watermark - offsets.get(one.partition, one.log_start_offset), 0)
        for one in state.log
    )
    rows = [] if report.ranges is None else table_of_offsets(report.ranges, watermarks)
    return {
        "rows": report.records,
        "dagster/row_count": report.row_count,
        "records": report.records,
        "bytes": report.size_bytes,
        "files": report.files,
        "files_expired": report.files_expired,
        "dagster/column_schema": events.column_schema(ARCHIVE_SCHEMA),
        "lag": lag,
        "seconds_behind": events.seconds_behind(
            lag, None if report.newest is None else int(report.newest.timestamp() * 1000), now
        ),
        "high_watermark": sum(watermarks.values()),
        **({} if report.version is None else {events.VERSION_METADATA: report.version}),
        "kind": "recovered" if report.version is None else "archive",
        **(
            {"offsets": dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows])}
            if rows
            else {}
        ),
        events.CHECKPOINT_METADATA: events.checkpoint_text(state.topic_id, offsets),
    }


register_of_topics(TablesOfTopics(kind=archive_of, asset=archive_asset))
