"""Runs of a source in processes of their own, which die at a chosen step; see
``test_source_kills``. No Spark and no Dagster takes part.
"""

import os
from datetime import UTC, datetime
from typing import Any
from unittest import mock

from log_service.client import BlockingProducer
from orchestration.log_client.connection import connect
from orchestration.sources import reading
from orchestration.sources.dropped_files import DroppedFiles
from orchestration.sources.reading import Source
from orchestration.sources.run import prepared, run_source, sender_id
from orchestration.topics.spec import TopicSpec
from tests.platform.dying import plant

PORTION = 3
CHANGES = TopicSpec(name="changes", partitions=2, configs={"cleanup.policy": "compact"})
STEPS: dict[str, tuple[Any, str, str, int]] = {
    "while-records-are-sent": (BlockingProducer, "send", "delivered", 2),
    "before-the-first-commit": (BlockingProducer, "commit_transaction", "before", 1),
    "between-two-commits": (BlockingProducer, "begin_transaction", "before", 2),
    "before-the-second-commit": (BlockingProducer, "commit_transaction", "before", 2),
    "after-the-second-commit": (BlockingProducer, "commit_transaction", "after", 2),
}
FILE_STEPS: dict[str, tuple[Any, str, str, int]] = {
    **STEPS,
    "before-the-move": (DroppedFiles, "move", "before", 1),
    "after-the-move": (DroppedFiles, "move", "after", 1),
}


def run(bootstrap: str, source: Source, step: str) -> None:
    """Run once; a STEP "none" lets it live."""
    if step != "none":
        owner, name, when, at_call = FILE_STEPS[step]
        plant({step: (owner, name, when)}, step, at_call)
    mock.patch.object(reading, "PORTION_RECORDS", PORTION).start()
    identity = sender_id("mine", None)
    with connect(bootstrap) as log:
        target = prepared(log, CHANGES, print)
        with log.open_sender(identity) as sender:
            run_source(
                source,
                identity,
                target,
                log,
                sender,
                run_id=f"run-{step}",
                now=datetime.now(UTC),
                note=print,
            )
    os._exit(0)
