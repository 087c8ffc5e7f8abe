"""Retention of topics, as an asset: makes brokers apply retention, and deletes consumed records.

Records that every table has read are deleted only if that is declared. Decides up to which offset
records may be deleted: the lowest checkpoint of all tables that follow the topic. If a table has no
checkpoint, no record is deleted. Brokers that do not know the request to apply retention (Apache
Kafka's) clean by themselves, and the run says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import dagster as dg

from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import LogClient, RetentionPass
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.retained.lag import TopicLag, measure_lag
from orchestration.transforms import TopicFeed, topic_feeds

GROUP = "maintenance"
BY_ITSELF = "the brokers clean by themselves; they cannot be asked for a pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """The result of a run.

    ``passes`` is None if the brokers clean by themselves. ``deleted`` counts offsets by topic.
    """

    passes: tuple[RetentionPass, ...] | None
    deleted: Mapping[str, int]

    def metadata(self) -> dict[str, dg.MetadataValue]:
        """Return the metadata that the UI shows and plots."""
        passes = self.passes or ()
        touched = [one for one in passes if one.segments]
        rows = [
            dg.TableRecord(
                {
                    "topic": one.topic,
                    "partition": one.partition,
                    "segments": one.segments,
                    "bytes": one.bytes,
                }
            )
            for one in touched
        ]
        return {
            "segments_removed": dg.MetadataValue.int(sum(one.segments for one in passes)),
            "bytes_removed": dg.MetadataValue.int(sum(one.bytes for one in passes)),
            "partitions_looked_at": dg.MetadataValue.int(len(passes)),
            "records_deleted": dg.MetadataValue.int(sum(self.deleted.values())),
            "pass": dg.MetadataValue.text(BY_ITSELF if self.passes is None else "done"),
            **({"removed": dg.MetadataValue.table(rows)} if rows else {}),
        }


def retention_asset(
    *, name: str = "retention", delete_consumed: Sequence[str] = ()
) -> dg.AssetsDefinition:
    """Return the asset whose run makes the brokers apply retention.

    Records of the topics ``delete_consumed`` are deleted as soon as all tables have read them. They
    cannot be replayed afterwards.
    """

    @dg.asset(
        key=[GROUP, name],
        group_name=GROUP,
        kinds={"kafka"},
        description="Removes segments that retention no longer keeps",
    )
    def apply_retention(
        context: dg.AssetExecutionContext, log_service: LogServiceResource, lake: LakeResource
    ) -> dg.MaterializeResult[None]:
        feeds = topic_feeds(context.repository_def.assets_defs_by_key.values())
        with log_service.open() as log:
            report = run_retention(log, lake.open(), consumers_of(feeds, delete_consumed))
        for topic in set(delete_consumed) - {topic for feed in feeds for topic in feed.topics}:
            context.log.warning(
                "no table follows the topic %s: its records are left to retention", topic
            )
        if report.passes is None:
            context.log.info(BY_ITSELF)
        return dg.MaterializeResult(metadata=report.metadata())

    return apply_retention


def consumers_of(feeds: Iterable[TopicFeed], topics: Sequence[str]) -> list[TopicFeed]:
    """Return the tables that read one of ``topics``, once per topic that they read."""
    return [
        replace(feed, topic=topic, also=())
        for feed in feeds
        for topic in feed.topics
        if topic in topics
    ]


def run_retention(log: LogClient, lake: Lake, consumers: Sequence[TopicFeed]) -> RetentionReport:
    """Delete records that all ``consumers`` of a topic have read.

    Then make the brokers apply retention, so that they remove segments.

    :raises LogServiceError: the log service does not respond.
    """
    deleted = {}
    for topic in sorted({feed.topic for feed in consumers}):
        measured = [
            measure_lag(log, lake, topic=topic, table=feed.table)
            for feed in consumers
            if feed.topic == topic
        ]
        before = decide_deletions([lag for lag in measured if lag is not None])
        if before:
            starts = {one.partition: one.log_start_offset for one in log.partition_offsets(topic)}
            ends = log.delete_records(topic, before)
            deleted[topic] = sum(max(end - starts[partition], 0) for partition, end in ends.items())
    return RetentionReport(passes=log.apply_retention(), deleted=deleted)


def decide_deletions(lags: Iterable[TopicLag]) -> dict[int, int]:
    """Return, by partition, the offset below which records of one topic may be deleted.

    It is the lowest checkpoint of the topic's tables, given by their ``lags``.
    """
    tables = list(lags)
    partitions = {one.partition: one.log_start_offset for lag in tables for one in lag.partitions}
    found = {}
    for partition, log_start in sorted(partitions.items()):
        if all(partition in lag.committed for lag in tables):
            offset = min(lag.committed[partition].next_offset for lag in tables)
            if offset > log_start:
                found[partition] = offset
    return found
