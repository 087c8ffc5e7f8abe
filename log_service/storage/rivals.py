"""Choice among several logs of one partition in different log directories.

A start may find such logs without a move that explains them. For instance, a replica left this node
while its directory was offline and came back to another one. Or the topic was deleted meanwhile,
and power failed before the id of a new topic of that name was durable.

The metadata decides which log is used. This module opens, renames and serves nothing. A damaged log
counts like an intact one, because an intact log that the metadata does not name would restore an
old state of the replica.
"""

from collections.abc import Callable, Sequence

from log_service.common.errors import StorageError
from log_service.storage.directory_loader import DamagedLog
from log_service.storage.log import Log

FoundLog = Log | DamagedLog


def is_blank(log: FoundLog) -> bool:
    """Return whether a log never held a record and has no topic id on disk."""
    return isinstance(log, Log) and log.topic_id is None and log.log_end_offset == 0


def one_that_counts(
    found: Sequence[FoundLog],
    is_known: Callable[[FoundLog], bool],
    is_named: Callable[[FoundLog], bool],
) -> FoundLog:
    """Return the log to use among the logs ``found`` of one partition.

    A log of an existing topic is preferred to others, and a log that is not blank to a blank one.
    Among the rest, the log in the replica's assigned directory is used.

    Raises:
        StorageError: the topic exists, and the metadata does not name exactly one of the
            directories.
    """
    for counts in (is_known, lambda log: not is_blank(log), is_named):
        found = [log for log in found if counts(log)] or found
    if len(found) > 1 and is_known(found[0]):
        places = " and in ".join(str(log.directory) for log in found)
        text = (
            f"{found[0].topic_partition} is in {places}, and the metadata does not say which of"
            " them counts"
        )
        raise StorageError(f"{text}: move all but one of them away, then start again")
    return found[0]  # if no log is known, this one becomes a stray with all others
