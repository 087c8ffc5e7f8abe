"""Which of several logs of one partition counts, where a start found them in different log directories and no move explains that.

For instance, a replica left this node while its directory was offline, and came back to another one; or its topic was deleted meanwhile,
and power failed before the id of the new topic of that name was durable.

Decides by what the metadata says. Opens, renames and serves nothing. A damaged log counts as a whole one does: to serve a whole one that
the metadata does not name would bring back a state that the replica left behind.
"""

from collections.abc import Callable, Sequence

from log_service.common.errors import StorageError
from log_service.storage.directory_loader import DamagedLog
from log_service.storage.log import Log

FoundLog = Log | DamagedLog


def is_blank(log: FoundLog) -> bool:
    """Whether a log never held a record, and no topic id was written down for it."""
    return isinstance(log, Log) and log.topic_id is None and log.log_end_offset == 0


def one_that_counts(found: Sequence[FoundLog], is_known: Callable[[FoundLog], bool], is_named: Callable[[FoundLog], bool]) -> FoundLog:
    """Return the log of an existing topic, rather than a blank one; of several that in whose directory the metadata has the replica.

    Raises:
        StorageError: the metadata names none of their directories.
    """
    for counts in (is_known, lambda log: not is_blank(log), is_named):
        found = [log for log in found if counts(log)] or found
    if len(found) > 1 and is_known(found[0]):
        places = " and in ".join(str(log.directory) for log in found)
        text = f"{found[0].topic_partition} is in {places}, and the metadata does not say which of them counts"
        raise StorageError(f"{text}: move all but one of them away, then start again")
    return found[0]  # where none is known, it goes with all other strays
