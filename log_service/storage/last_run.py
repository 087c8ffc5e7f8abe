"""Comparison of the logs that a start finds with the logs of the last run.

For each log that the files of a log directory name, this module determines how far the log reached.
It uses the list of the run (``running_logs``), the recovery points and the high watermarks. It
opens and serves nothing. A log is not missing if it moved to another directory of the node.

The list decides which logs existed, because a checkpoint also names logs that were deleted since.
Without a list, the recovery points name the logs. After a clean stop they are current.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from log_service.common.types import TopicId, TopicPartition
from log_service.storage.clean_shutdown import UNKNOWN_BROKER_EPOCH
from log_service.storage.directory_loader import LoadedDirectory
from log_service.storage.file_names import LOG_SUFFIX, file_name
from log_service.storage.log import Log
from log_service.storage.partition_metadata import format_uuid
from log_service.storage.running_logs import RUNNING_LOGS_FILE, Extent

_NAMED_FAULTS = 5
"""Maximum number of faults that one log line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostLog:
    """A log that is missing, or that lacks records.

    ``extent`` is the offset range that it certainly had in the last run. ``fault`` is a sentence
    about the loss. ``has_gap`` means that records before the log's end are missing. A follower
    never fetches these records again, because it fetches from the end of its log on.
    """

    topic_partition: TopicPartition
    directory: Path
    extent: Extent
    fault: str
    has_gap: bool = False

    @property
    def topic_id(self) -> TopicId | None:
        """The id of its topic, or None if it was not known."""
        return self.extent.topic_id


def expected_extents(loaded: LoadedDirectory) -> dict[TopicPartition, Extent]:
    """Return the offset range that each log of a directory certainly had in the last run."""
    if loaded.listed is None:
        named = loaded.recovery_points.items()
        return {
            key: Extent(topic_id=None, start_offset=offset, end_offset=offset)
            for key, offset in named
            if offset > 0
        }
    return {
        key: Extent(
            topic_id=extent.topic_id,
            start_offset=extent.start_offset,
            end_offset=max(
                extent.end_offset,
                loaded.recovery_points.get(key, 0),
                loaded.high_watermarks.get(key, 0),
            ),
            base_offsets=tuple(
                offset
                for offset in extent.base_offsets
                if extent.start_offset < offset < extent.end_offset
            ),
        )
        for key, extent in loaded.listed.extents.items()
    }


def lost_logs(
    loaded: LoadedDirectory, found: Mapping[TopicPartition, Sequence[Log]]
) -> list[LostLog]:
    """Return the logs of a directory that are missing or lack records.

    ``found`` holds the logs of all directories.
    """
    lost = []
    for topic_partition, expected in expected_extents(loaded).items():
        logs = found.get(topic_partition, ())
        faults = [_fault(expected, log) for log in logs] or ["is missing"]
        if None not in faults:
            end_offset = max(expected.end_offset, loaded.high_watermarks.get(topic_partition, 0))
            extent = replace(expected, end_offset=end_offset)
            fault = (
                f"{topic_partition} {faults[0]}, it ended at offset {end_offset} in"
                f" {loaded.directory}"
            )
            has_gap = any(_gap(expected, log) is not None for log in logs)
            lost.append(
                LostLog(
                    topic_partition=topic_partition,
                    directory=loaded.directory,
                    extent=extent,
                    fault=fault,
                    has_gap=has_gap,
                )
            )
    return lost


def file_faults(loaded: LoadedDirectory) -> list[str]:
    """Return a text for each missing file, or missing checkpoint entry, of a log directory.

    It checks the files that show whether everything that the last run wrote still exists.
    """
    faults = [f"{loaded.directory / name} is missing" for name in loaded.missing_checkpoints]
    if loaded.listed is not None or loaded.kept_epoch is None:
        return faults
    if loaded.broker_epoch is None:
        return [f"{loaded.directory} has no {RUNNING_LOGS_FILE} of that run"]
    nameless = [
        log.topic_partition
        for log in loaded.logs
        if log.log_end_offset and log.topic_partition not in loaded.recovery_points
    ]
    return [
        f"{topic_partition} has no recovery point in {loaded.directory}"
        for topic_partition in nameless
    ]


def _fault(extent: Extent, log: Log) -> str | None:
    """Describe how a log differs from its former extent. Return None if it has everything."""
    if extent.topic_id not in (None, log.topic_id):
        return f"is of topic id {_shown(log.topic_id)} instead of {_shown(extent.topic_id)}"
    if log.log_end_offset < extent.end_offset:
        return f"ends at offset {log.log_end_offset} instead of {extent.end_offset}"
    return _gap(extent, log)


def _gap(extent: Extent, log: Log) -> str | None:
    """Describe the records that a log lacks before its end. Return None if it lacks none."""
    if log.segments[0].base_offset > extent.start_offset:
        return f"begins at offset {log.segments[0].base_offset} instead of {extent.start_offset}"
    there = {segment.base_offset for segment in log.segments}
    if missing := [
        offset
        for offset in extent.base_offsets
        if offset not in there and offset < log.log_end_offset
    ]:
        return f"has no segment {file_name(min(missing), LOG_SUFFIX)}"
    return None


def _shown(topic_id: TopicId | None) -> str:
    return "none" if topic_id is None else format_uuid(topic_id)


def epoch_of_all(epochs: Sequence[int | None]) -> int:
    """Return the broker epoch of all directories, or -1 if they differ or one has none.

    A replaced disk has no epoch, and the data of the old disk is lost.
    """
    first = epochs[0]
    return (
        UNKNOWN_BROKER_EPOCH if first is None or any(epoch != first for epoch in epochs) else first
    )


def faults_text(faults: Sequence[str]) -> str:
    """Return one log line for all faults that a start found."""
    more = f"; and {len(faults) - _NAMED_FAULTS} more" if len(faults) > _NAMED_FAULTS else ""
    return (
        f"what the last run left is missing or exchanged, in {len(faults)}"
        f" place{'s' * (len(faults) > 1)}: {'; '.join(faults[:_NAMED_FAULTS])}{more}. This broker"
        " counts as one that lost records: bring them back and start again, or let it copy from"
        " other replicas. A lost log whose only replica was here begins behind its last known"
        " offset"
    )
