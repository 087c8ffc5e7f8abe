"""The topic ``orders`` of a log in memory is archived into a lake.

Functions archive as a test asks, and return the records that archive and log hold then.
"""

from typing import Any

from orchestration.lake.tables import Lake
from orchestration.retained.readable_records import HeldTopic, held_topic
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.archiving import Archive
from orchestration.transforms.archiving.run import ArchiveContext, run_archive
from tests.unit.orchestration.memory_log import MemoryLog


def archive(
    log: MemoryLog,
    lake: Lake,
    topic: str = "orders",
    *,
    chunk_records: int = 4,
    kept_days: float | None = None,
    **changes: Any,
) -> None:
    """Archive all that waits."""
    context: dict[str, Any] = {
        "log": log,
        "lake": lake,
        "note": lambda _: None,
        "pin": lambda _: None,
        "run_id": "archive-1",
        "commit_attempts": 3,
    }
    spec = TopicSpec(name=topic, archive=Archive(chunk_records=chunk_records, kept_days=kept_days))
    run_archive(spec, ArchiveContext(**{**context, **changes}))


def held_by(log: MemoryLog, lake: Lake, topic: str = "orders") -> HeldTopic:
    """Return what archive and log hold."""
    return held_topic(topic, log.topics[topic].topic_id, log, log.partition_offsets(topic), lake)
