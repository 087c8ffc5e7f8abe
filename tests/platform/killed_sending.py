"""Runs of a transform to a topic die at a chosen step, in a process of their own.

``test_to_topic_kills`` starts them. ``main(REMOTE, BOOTSTRAP, LAKE, STEP, LIMIT, BYTES)``: runs
until there is nothing new, LIMIT offsets each, transactions of BYTES; STEP "none" lets it live.
"""

from pathlib import Path

from log_service.client import BlockingProducer
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from orchestration.transforms.ledger import ledger
from orchestration.transforms.run.context import RunContext
from tests.platform.dying import Steps, plant
from tests.platform.good_orders import GROUP, orders_transform, sending_of
from tests.platform.pipeline import Notes

SENT_BEFORE_DYING = 5
STEPS: Steps = {
    "before-dead-letters": (DeadLetters, "replace_pending", "before"),
    "before-the-transaction": (BlockingProducer, "begin_transaction", "before"),
    "while-rows-are-sent": (BlockingProducer, "send", "delivered"),
    "between-rows-and-offsets": (BlockingProducer, "send_offsets_to_transaction", "before"),
    "between-offsets-and-commit": (BlockingProducer, "commit_transaction", "before"),
    "after-the-commit": (BlockingProducer, "commit_transaction", "after"),
    "before-the-ledger": (ledger, "write", "before"),
    "after-the-ledger": (ledger, "write", "after"),
}
IS_OPEN = {"while-rows-are-sent"}
"""Where a transaction's rows are in the log for sure: what was not delivered yet dies with the
producer.
"""
IS_COMMITTED = {"after-the-commit", "before-the-ledger", "after-the-ledger"}


def main(remote: str, bootstrap: str, lake: str, step: str, *limits: str) -> None:
    records_per_run, transaction_bytes = map(int, limits)
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    plant(STEPS, step, SENT_BEFORE_DYING if step == "while-rows-are-sent" else 1)
    with connect(bootstrap) as log, log.open_sender(GROUP) as sender:
        table, work = sending_of(orders_transform(), sender, transaction_bytes=transaction_bytes)
        context = RunContext(
            log=log,
            lake=Lake(Path(lake)),
            session=lambda: session,
            reporter=Notes(),
            run_id=f"run-{step}",
            records_per_run=records_per_run,
            arrow_records=10_000,
            commit_attempts=3,
        )
        while (result := work.run(table, context)).version is not None:
            pass
        assert not result.failures
