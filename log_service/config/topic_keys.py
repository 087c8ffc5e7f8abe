"""Every configuration key of a topic, as in Kafka 4.3, and the broker keys that give its default.

Keys of schema validation have Confluent's names.

This module declares names, types, defaults and bounds. The code that receives the view decides what
a key does.
"""

from collections.abc import Mapping

from log_service.config.definition import (
    MAX_LONG,
    ConfigKey,
    ConfigType,
    Importance,
    Trait,
    Value,
    at_least,
    between,
    between_or,
    has,
    keyed,
    list_of,
    one_of,
    to,
)

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
TOPIC_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicNameStrategy"
RECORD_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
TOPIC_RECORD_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
STRATEGIES = (TOPIC_NAME_STRATEGY, RECORD_NAME_STRATEGY, TOPIC_RECORD_NAME_STRATEGY)
"""Confluent's names of the ways to a subject."""
MIN_SEGMENT_BYTES = 1 << 20
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


def throttled_replicas(value: Value) -> str | None:
    """Accept ``*`` or a list of partition:broker pairs, or return an error text.

    Empty items are ignored.
    """
    assert isinstance(value, tuple)
    items = [item for item in value if item]
    if items == ["*"] or all(_is_pair(item) for item in items):
        return None
    return "it must be * or a list such as 0:101,1:102 (partition:broker)"


def _is_pair(item: str) -> bool:
    partition, _, broker = item.partition(":")
    return partition.isdecimal() and broker.isdecimal()


TOPIC_KEYS: Mapping[str, ConfigKey] = keyed(
    (
        ConfigKey(
            name="cleanup.policy",
            type=ConfigType.LIST,
            default="delete",
            validator=list_of("compact", "delete"),
            documentation=(
                "How old records are removed. delete removes whole segments by age and size. "
                "compact keeps the last record of each key."
            ),
            reason="a log that is not a table should not grow for ever",
            synonyms=("log.cleanup.policy",),
            fields=to("LogConfig.is_compacted", has("compact"))
            + to("LogConfig.is_deleted", has("delete")),
        ),
        ConfigKey(
            name="compression.gzip.level",
            type=ConfigType.INT,
            default="-1",
            validator=between_or(1, 9, -1),
            documentation="Compression level for batches that the broker compresses with gzip.",
            reason="-1 is the library's own choice",
            synonyms=("compression.gzip.level",),
            fields=to("LogConfig.compression_gzip_level"),
        ),
        ConfigKey(
            name="compression.lz4.level",
            type=ConfigType.INT,
            default="9",
            validator=between(1, 17),
            documentation="Compression level for batches that the broker compresses with lz4.",
            reason="as in Apache Kafka",
            synonyms=("compression.lz4.level",),
            fields=to("LogConfig.compression_lz4_level"),
        ),
        ConfigKey(
            name="compression.type",
            type=ConfigType.STRING,
            default="producer",
            validator=one_of(*COMPRESSION_TYPES),
            documentation="Codec of the stored batches. producer keeps the codec of the producer.",
            reason="the broker then never has to compress a batch again",
            synonyms=("compression.type",),
            fields=to("LogConfig.compression_type"),
        ),
        ConfigKey(
            name="compression.zstd.level",
            type=ConfigType.INT,
            default="3",
            validator=between(-131_072, 22),
            documentation="Compression level for batches that the broker compresses with zstd.",
            reason="as in zstd itself",
            synonyms=("compression.zstd.level",),
            fields=to("LogConfig.compression_zstd_level"),
        ),
        *(
            ConfigKey(
                name=f"confluent.{part}.schema.validation",
                type=ConfigType.BOOLEAN,
                default="false",
                documentation=f"Refuse records whose {part} does not name a schema that is "
                "registered under the topic's subject. A null needs no schema. The key needs "
                "confluent.schema.registry.url on each node.",
                reason="a topic may have any bytes",
                traits=Trait.OWN,
                fields=to(f"LogConfig.is_{part}_schema_validated"),
            )
            for part in ("key", "value")
        ),
        *(
            ConfigKey(
                name=f"confluent.{part}.subject.name.strategy",
                type=ConfigType.STRING,
                default=TOPIC_NAME_STRATEGY,
                validator=one_of(*STRATEGIES),
                documentation=f"The strategy that names the subject of a {part}'s schema for "
                f"confluent.{part}.schema.validation.",
                reason="serializers use the same strategy by default",
                traits=Trait.OWN,
                fields=to(f"LogConfig.{part}_subject_name_strategy"),
            )
            for part in ("key", "value")
        ),
        ConfigKey(
            name="delete.retention.ms",
            type=ConfigType.LONG,
            default="86400000",
            validator=at_least(0),
            documentation=(
                "How long a tombstone stays in a compacted log after cleaning, so that slow "
                "readers see the deletion."
            ),
            reason="a reader that starts from the beginning has a day",
            synonyms=("log.cleaner.delete.retention.ms",),
            fields=to("LogConfig.delete_retention_ms"),
        ),
        ConfigKey(
            name="file.delete.delay.ms",
            type=ConfigType.LONG,
            default="60000",
            validator=at_least(0),
            documentation="How long the files of a removed segment stay on disk, under another name.",
            reason="readers that still hold the file finish within a minute",
            synonyms=("log.segment.delete.delay.ms",),
            fields=to("LogConfig.file_delete_delay_ms"),
        ),
        ConfigKey(
            name="flush.messages",
            type=ConfigType.LONG,
            default=str(MAX_LONG),
            validator=at_least(1),
            documentation=(
                "Records after which the log is synced to disk. 1 syncs before each "
                "acknowledgement."
            ),
            reason=(
                "replication makes records durable, and the operating system writes them back by "
                "itself"
            ),
            synonyms=("log.flush.interval.messages",),
            fields=to("LogConfig.flush_messages"),
        ),
        ConfigKey(
            name="flush.ms",
            type=ConfigType.LONG,
            default=str(MAX_LONG),
            validator=at_least(0),
            documentation=(
                "Time after which the log is synced to disk. It is checked every "
                "log.flush.scheduler.interval.ms."
            ),
            reason=(
                "replication makes records durable, and the operating system writes them back by "
                "itself"
            ),
            synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
            fields=to("LogConfig.flush_ms"),
        ),
        ConfigKey(
            name="follower.replication.throttled.replicas",
            type=ConfigType.LIST,
            default="",
            validator=throttled_replicas,
            documentation="Replicas whose fetching is limited by the follower's replication quota.",
            reason="no replica is throttled",
        ),
        ConfigKey(
            name="index.interval.bytes",
            type=ConfigType.INT,
            default="4096",
            validator=at_least(0),
            documentation="Bytes of log between two entries of the offset index.",
            reason="a lookup then reads one page of the file",
            synonyms=("log.index.interval.bytes",),
            fields=to("LogConfig.index_interval_bytes"),
        ),
        ConfigKey(
            name="leader.replication.throttled.replicas",
            type=ConfigType.LIST,
            default="",
            validator=throttled_replicas,
            documentation="Replicas whose reading is limited by the leader's replication quota.",
            reason="no replica is throttled",
        ),
        ConfigKey(
            name="local.retention.bytes",
            type=ConfigType.LONG,
            default="-2",
            validator=at_least(-2),
            documentation=(
                "Bytes kept on the local disk when segments also lie in remote storage; -2 follows"
                " retention.bytes."
            ),
            reason="there is no remote storage",
            is_acting=False,
            synonyms=("log.local.retention.bytes",),
        ),
        ConfigKey(
            name="local.retention.ms",
            type=ConfigType.LONG,
            default="-2",
            validator=at_least(-2),
            documentation=(
                "Milliseconds kept on the local disk when segments also lie in remote storage; -2"
                " follows retention.ms."
            ),
            reason="there is no remote storage",
            is_acting=False,
            synonyms=("log.local.retention.ms",),
        ),
        ConfigKey(
            name="max.compaction.lag.ms",
            type=ConfigType.LONG,
            default=str(MAX_LONG),
            validator=at_least(1),
            documentation="The longest time that a record may stay uncompacted.",
            reason="min.cleanable.dirty.ratio alone decides",
            synonyms=("log.cleaner.max.compaction.lag.ms",),
            fields=to("LogConfig.max_compaction_lag_ms"),
        ),
        ConfigKey(
            name="max.message.bytes",
            type=ConfigType.INT,
            default="1048588",
            validator=at_least(0),
            documentation="The largest record batch that is accepted, in bytes as stored.",
            reason="a mebibyte of records, and the header that older versions counted",
            synonyms=("message.max.bytes",),
            fields=to("LogConfig.max_message_bytes"),
        ),
        ConfigKey(
            name="message.timestamp.after.max.ms",
            type=ConfigType.LONG,
            default="3600000",
            validator=at_least(0),
            documentation="How far a record's timestamp may lie in the future of the broker's clock.",
            reason="clocks may differ by an hour; later timestamps would keep segments from expiring",
            synonyms=("log.message.timestamp.after.max.ms",),
            fields=to("LogConfig.message_timestamp_after_max_ms"),
        ),
        ConfigKey(
            name="message.timestamp.before.max.ms",
            type=ConfigType.LONG,
            default=str(MAX_LONG),
            validator=at_least(0),
            documentation="How far a record's timestamp may lie in the past of the broker's clock.",
            reason="producers may write old records",
            synonyms=("log.message.timestamp.before.max.ms",),
            fields=to("LogConfig.message_timestamp_before_max_ms"),
        ),
        ConfigKey(
            name="message.timestamp.type",
            type=ConfigType.STRING,
            default="CreateTime",
            validator=one_of(*TIMESTAMP_TYPES),
            documentation=(
                "Whether a record has its producer's timestamp or the time at which the broker "
                "appended it."
            ),
            reason="the producer knows the time of the event",
            synonyms=("log.message.timestamp.type",),
            fields=to("LogConfig.message_timestamp_type"),
        ),
        ConfigKey(
            name="min.cleanable.dirty.ratio",
            type=ConfigType.DOUBLE,
            default="0.5",
            validator=between(0, 1),
            documentation="The share of a compacted log that may be uncompacted before the log is cleaned.",
            reason="at most half of the log is then superseded records",
            synonyms=("log.cleaner.min.cleanable.ratio",),
            fields=to("LogConfig.min_cleanable_dirty_ratio"),
        ),
        ConfigKey(
            name="min.compaction.lag.ms",
            type=ConfigType.LONG,
            default="0",
            validator=at_least(0),
            documentation="The shortest time that a record stays uncompacted.",
            reason="readers of a table need only the last value",
            synonyms=("log.cleaner.min.compaction.lag.ms",),
            fields=to("LogConfig.min_compaction_lag_ms"),
        ),
        ConfigKey(
            name="min.insync.replicas",
            type=ConfigType.INT,
            default="1",
            validator=at_least(1),
            importance=Importance.HIGH,
            documentation=(
                "In-sync replicas that must have a record before acks=all is acknowledged. A "
                "partition with fewer replicas needs all of them."
            ),
            reason=(
                "as in Apache Kafka; with three replicas, 2 loses no acknowledged record when a "
                "node dies"
            ),
            synonyms=("min.insync.replicas",),
            fields=to("LogConfig.min_insync_replicas"),
        ),
        ConfigKey(
            name="preallocate",
            type=ConfigType.BOOLEAN,
            default="false",
            documentation=(
                "Give a segment's file its full size when it is created. Here a file grows as it "
                "is written."
            ),
            reason="current file systems append well without it",
            is_acting=False,
            synonyms=("log.preallocate",),
        ),
        ConfigKey(
            name="remote.log.copy.disable",
            type=ConfigType.BOOLEAN,
            default="false",
            documentation="Stop copying segments to remote storage.",
            reason="there is no remote storage",
            is_acting=False,
        ),
        ConfigKey(
            name="remote.log.delete.on.disable",
            type=ConfigType.BOOLEAN,
            default="false",
            documentation="Remove remote segments when remote storage is turned off.",
            reason="there is no remote storage",
            is_acting=False,
        ),
        ConfigKey(
            name="remote.storage.enable",
            type=ConfigType.BOOLEAN,
            default="false",
            documentation=(
                "Keep old segments in remote storage. true is refused, because there is no remote "
                "storage."
            ),
            reason="there is no remote storage",
            refusal="there is no remote storage here",
        ),
        ConfigKey(
            name="retention.bytes",
            type=ConfigType.LONG,
            default="-1",
            documentation=(
                "Size of a partition above which its oldest segments are deleted. -1 and every "
                "other negative number mean no limit."
            ),
            reason="age alone decides",
            synonyms=("log.retention.bytes",),
            fields=to("LogConfig.retention_bytes"),
        ),
        ConfigKey(
            name="retention.ms",
            type=ConfigType.LONG,
            default=str(WEEK_MS),
            validator=at_least(-1),
            documentation="Age above which segments are deleted. -1 means no limit.",
            reason="a week is enough to notice that a reader has stopped",
            synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
            fields=to("LogConfig.retention_ms"),
        ),
        ConfigKey(
            name="segment.bytes",
            type=ConfigType.INT,
            default=str(1 << 30),
            validator=at_least(MIN_SEGMENT_BYTES),
            documentation="Size of the active segment at which a new one is begun.",
            reason="there are few files, and retention still works in steps of a gibibyte",
            synonyms=("log.segment.bytes",),
            fields=to("LogConfig.segment_bytes"),
        ),
        ConfigKey(
            name="segment.index.bytes",
            type=ConfigType.INT,
            default=str(10 << 20),
            validator=at_least(4),
            documentation="The largest size of a segment's offset index.",
            reason="it is enough for a full segment with the default of index.interval.bytes",
            synonyms=("log.index.size.max.bytes",),
            fields=to("LogConfig.segment_index_bytes"),
        ),
        ConfigKey(
            name="segment.jitter.ms",
            type=ConfigType.LONG,
            default="0",
            validator=at_least(0),
            documentation=(
                "Random time subtracted from segment.ms, so that partitions do not begin segments "
                "at the same time."
            ),
            reason="beginning a segment costs little",
            synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
            fields=to("LogConfig.segment_jitter_ms"),
        ),
        ConfigKey(
            name="segment.ms",
            type=ConfigType.LONG,
            default=str(WEEK_MS),
            validator=at_least(1),
            documentation=(
                "Age of the active segment at which a new one is begun, even if it is small, so "
                "that retention can delete its records."
            ),
            reason="the same as retention.ms",
            synonyms=("log.roll.ms", "log.roll.hours"),
            fields=to("LogConfig.segment_ms"),
        ),
        ConfigKey(
            name="unclean.leader.election.enable",
            type=ConfigType.BOOLEAN,
            default="false",
            documentation="Elect a replica that may lack acknowledged records if no other replica is left.",
            reason="acknowledged records are kept",
            synonyms=("unclean.leader.election.enable",),
        ),
    )
)
