"""A replay of a transform's dead letters dies at a chosen step.

It is a process of its own, started by ``test_to_topic_kills``. ``main(REMOTE, BOOTSTRAP, LAKE,
STEP)``: the rule that rejected orders is gone meanwhile; STEP "none" lets it live.
"""

from pathlib import Path

from log_service.client import BlockingProducer
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from orchestration.transforms.ledger import ledger
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_topic.replay import run_letters_replay
from tests.platform.dying import Steps, plant
from tests.platform.good_orders import GROUP, orders_transform, sending_of
from tests.platform.pipeline import Notes

STEPS: Steps = {
    "before-the-letters": (DeadLetters, "begin_replay", "before"),
    "before-the-transaction": (BlockingProducer, "begin_transaction", "before"),
    "while-rows-are-sent": (BlockingProducer, "send", "delivered"),
    "between-offsets-and-commit": (BlockingProducer, "commit_transaction", "before"),
    "after-the-commit": (BlockingProducer, "commit_transaction", "after"),
    "before-the-ledger": (ledger, "write", "before"),
    "before-tidying": (DeadLetters, "settle_replay", "before"),
}


def main(remote: str, bootstrap: str, lake: str, step: str) -> None:
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    plant(STEPS, step)
    with connect(bootstrap) as log, log.open_sender(GROUP) as sender:
        table, work = sending_of(orders_transform(rules=()), sender)
        context = RunContext(
            log=log,
            lake=Lake(Path(lake)),
            session=lambda: session,
            reporter=Notes(),
            run_id=f"replay-{step}",
            records_per_run=1_000,
            arrow_records=10_000,
            commit_attempts=3,
        )
        for result in run_letters_replay(
            work, table, context, ReplayRequest(is_of_dead_letters=True)
        ):
            assert not result.failures
