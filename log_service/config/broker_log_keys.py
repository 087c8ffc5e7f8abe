"""The broker's keys about logs: defaults of topic keys, and the upkeep of the log directories.

Most are derived from the topic key whose default they give, with the same type, bounds and meaning.
Keys that differ in unit or bounds are declared here, and so are the intervals of upkeep. A key that
gives a topic's default may change while the broker runs, unless it has another unit.
"""

from dataclasses import replace

from log_service.config.definition import (
    CLUSTER_WIDE,
    MAX_LONG,
    ConfigKey,
    ConfigType,
    Importance,
    Trait,
    Value,
    at_least,
    between,
    to,
)
from log_service.config.topic_keys import HOUR_MS, TOPIC_KEYS

MINUTE_MS = 60_000


def not_zero(value: Value) -> str | None:
    """Accept every number except 0. Return an error text for 0."""
    return None if value != 0 else "it must be at least 1, or negative for no limit"


DECLARED = (
    ConfigKey(
        name="log.retention.ms",
        type=ConfigType.LONG,
        default=None,
        validator=not_zero,
        importance=Importance.HIGH,
        documentation=(
            "Age above which segments are deleted. -1 and every other negative number mean no "
            "limit."
        ),
        reason="log.retention.minutes and log.retention.hours are used",
        update_mode=CLUSTER_WIDE,
    ),
    ConfigKey(
        name="log.retention.hours",
        type=ConfigType.INT,
        default="168",
        importance=Importance.HIGH,
        documentation=(
            "Age in hours above which segments are deleted, if neither log.retention.ms nor "
            "log.retention.minutes is set."
        ),
        reason="a week is enough to notice that a reader has stopped",
        factor=HOUR_MS,
    ),
    ConfigKey(
        name="log.retention.minutes",
        type=ConfigType.INT,
        default=None,
        importance=Importance.HIGH,
        documentation="Age in minutes above which segments are deleted, if log.retention.ms is not set.",
        reason="log.retention.hours is used",
        factor=MINUTE_MS,
    ),
    ConfigKey(
        name="log.roll.hours",
        type=ConfigType.INT,
        default="168",
        validator=at_least(1),
        importance=Importance.HIGH,
        documentation=(
            "Age in hours of the active segment at which a new one is begun, if log.roll.ms "
            "is not set."
        ),
        reason="the same as log.retention.hours",
        factor=HOUR_MS,
    ),
    ConfigKey(
        name="log.roll.jitter.hours",
        type=ConfigType.INT,
        default="0",
        validator=at_least(0),
        importance=Importance.HIGH,
        documentation=(
            "Random time in hours subtracted from log.roll.hours, if log.roll.jitter.ms is not set."
        ),
        reason="beginning a segment costs little",
        factor=HOUR_MS,
    ),
    ConfigKey(
        name="log.flush.scheduler.interval.ms",
        type=ConfigType.LONG,
        default=str(MAX_LONG),
        importance=Importance.HIGH,
        documentation="How often the broker looks for logs that flush.ms requires to be synced.",
        reason="no log is due unless flush.ms is set",
        fields=to("LogManagerConfig.flush_scheduler_interval_ms"),
    ),
    ConfigKey(
        name="log.flush.offset.checkpoint.interval.ms",
        type=ConfigType.INT,
        default="60000",
        validator=at_least(0),
        importance=Importance.HIGH,
        documentation=(
            "How often recovery points are written. A start checks only records after the "
            "recovery point."
        ),
        reason="after a crash at most a minute's records are checked",
        fields=to("LogManagerConfig.flush_offset_checkpoint_interval_ms"),
    ),
    ConfigKey(
        name="log.flush.start.offset.checkpoint.interval.ms",
        type=ConfigType.INT,
        default="60000",
        validator=at_least(0),
        importance=Importance.HIGH,
        documentation="How often log start offsets are written.",
        reason="a crash undoes at most a minute's deletions",
        fields=to("LogManagerConfig.flush_start_offset_checkpoint_interval_ms"),
    ),
    ConfigKey(
        name="log.retention.check.interval.ms",
        type=ConfigType.LONG,
        default="300000",
        validator=at_least(1),
        documentation="How often the broker looks for segments to delete.",
        reason="it is short compared with a retention of hours or days",
        fields=to("LogManagerConfig.retention_check_interval_ms"),
    ),
    ConfigKey(
        name="log.initial.task.delay.ms",
        type=ConfigType.LONG,
        default="30000",
        validator=at_least(0),
        importance=Importance.LOW,
        documentation="Time from the start of the broker to the first upkeep of its logs.",
        reason="the start has more urgent work",
        traits=Trait.INTERNAL,
        fields=to("LogManagerConfig.initial_task_delay_ms"),
    ),
    ConfigKey(
        name="num.recovery.threads.per.data.dir",
        type=ConfigType.INT,
        default="2",
        validator=at_least(1),
        importance=Importance.HIGH,
        documentation="Logs of one directory that are opened in parallel at the start.",
        reason="reading two files at once keeps a disk busy",
        update_mode=CLUSTER_WIDE,
        traits=Trait.THREADS,
        fields=to("LogManagerConfig.recovery_threads_per_data_dir"),
    ),
    ConfigKey(
        name="log.cleaner.enable",
        type=ConfigType.BOOLEAN,
        default="true",
        documentation="Whether logs with compaction are cleaned.",
        reason="topics with compaction need it",
        fields=to("CleanerConfig.is_enabled"),
    ),
    ConfigKey(
        name="log.cleaner.threads",
        type=ConfigType.INT,
        default="1",
        validator=at_least(0),
        documentation="Logs that are cleaned in parallel.",
        reason="cleaning must not slow down requests",
        update_mode=CLUSTER_WIDE,
        traits=Trait.THREADS,
        fields=to("CleanerConfig.thread_count"),
    ),
    ConfigKey(
        name="log.cleaner.backoff.ms",
        type=ConfigType.LONG,
        default="15000",
        validator=at_least(0),
        documentation="Pause of the cleaner when no log needs cleaning.",
        reason="a log becomes dirty slowly",
        update_mode=CLUSTER_WIDE,
        fields=to("CleanerConfig.backoff_ms"),
    ),
    ConfigKey(
        name="log.cleaner.dedupe.buffer.size",
        type=ConfigType.LONG,
        default="134217728",
        validator=at_least(1 << 20),
        documentation=(
            "Memory for the map of keys to offsets, in bytes, of all cleaner threads "
            "together. Keys that do not fit into it need another pass."
        ),
        reason="one pass then cleans some 600,000 short keys",
        update_mode=CLUSTER_WIDE,
        fields=to("CleanerConfig.dedupe_buffer_bytes"),
    ),
    ConfigKey(
        name="log.cleaner.io.buffer.size",
        type=ConfigType.INT,
        default="524288",
        validator=at_least(0),
        documentation="Memory for reading and writing while cleaning, in bytes.",
        reason="reads are large and sequential",
        update_mode=CLUSTER_WIDE,
        fields=to("CleanerConfig.io_buffer_bytes"),
    ),
    ConfigKey(
        name="log.cleaner.io.buffer.load.factor",
        type=ConfigType.DOUBLE,
        default="0.9",
        validator=between(0, 1),
        documentation="How full the map of keys to offsets may get, as a share of its memory.",
        reason="a key may take more memory than estimated",
        update_mode=CLUSTER_WIDE,
        fields=to("CleanerConfig.dedupe_load_factor"),
    ),
    ConfigKey(
        name="log.cleaner.io.max.bytes.per.second",
        type=ConfigType.DOUBLE,
        default="1.7976931348623157E308",
        documentation="Bytes that the cleaner may read and write per second.",
        reason="no limit is needed",
        update_mode=CLUSTER_WIDE,
        fields=to("CleanerConfig.io_max_bytes_per_second"),
    ),
)

_DECLARED_NAMES = frozenset(key.name for key in DECLARED)
DERIVED = tuple(
    replace(
        key,
        name=name,
        # A key with several synonyms has no default, because the key in a coarser unit has one.
        default=(None if len(key.synonyms) > 1 else key.default),
        importance=Importance.HIGH,
        update_mode=CLUSTER_WIDE,
        synonyms=(),
        fields=(),
    )
    for key in TOPIC_KEYS.values()
    for name in key.synonyms
    if name not in _DECLARED_NAMES
)

BROKER_LOG_KEYS = (*DERIVED, *DECLARED)
