"""Runs and replays of a table that keeps records as they were die at a chosen step.

They are processes against a real broker. Started by ``test_replay_from_archive``. ``main(REMOTE,
BOOTSTRAP, LAKE, STEP)``: STEP "run" commits all that is new, and "piece" the next ``PIECE_RECORDS``
offsets; a step of ``killed_run.STEPS`` is the latter, and dies there. "replay" replays everything;
a step of ``killed_run.REPLAY_STEPS`` is a replay that dies there, at its second piece.
"""

from pathlib import Path
from typing import Any

from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.dying import plant
from tests.platform.killed_run import REPLAY_STEPS, STEPS
from tests.platform.pipeline import Notes

EVENTS = TopicSpec(name="events", partitions=2)
PIECE_RECORDS = 40


def as_it_was(records: Any) -> Any:
    """Records as they are."""
    return records.select(
        "_topic_id", "_partition", "_offset", "_timestamp", "_key", "_value", "_headers"
    )


TABLE = TopicTable(name="events_kept", topic=EVENTS, function=as_it_was, has_headers=True)


def main(remote: str, bootstrap: str, lake: str, step: str) -> None:
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    plant(REPLAY_STEPS, step, 2)
    plant(STEPS, step)
    with connect(bootstrap) as log:
        context = RunContext(
            log=log,
            lake=Lake(Path(lake)),
            session=lambda: session,
            reporter=Notes(),
            run_id=f"run-{step}",
            records_per_run=1_000 if step == "run" else PIECE_RECORDS,
            arrow_records=1_000,
            commit_attempts=3,
        )
        if step in {"run", "piece", *STEPS}:
            run_topic_table(TABLE, context)
        else:
            list(run_replay(TABLE, context, ReplayRequest(is_everything=True)))
