"""Runs in a process of their own, which dies at a chosen step; started by ``test_kills``.

``main(REMOTE, LOG, LIMIT, STEP, LAKE...)``: one run per lake; STEP "none" lets it live. A STEP that
begins with "replay" replays everything with another transform, LIMIT offsets at a time, and dies at
its second piece. One that begins with "latest" does the same for a table that keeps the newest row
of each key, whose replay has one piece.
"""

import pickle
from pathlib import Path
from typing import Any

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake import file_commits
from orchestration.rows import upserts
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.to_lake import replay
from orchestration.transforms.to_lake import run as lake_run
from tests.platform.accounts import accounts_table, newest_accounts
from tests.platform.dying import Steps, plant
from tests.platform.pipeline import clean_orders, orders_table, run_context

STEPS: Steps = {
    "before-table-is-created": (lake_run, "target_table", "before"),
    "after-table-is-created": (lake_run, "target_table", "after"),
    "before-dead-letters": (DeadLetters, "replace_pending", "before"),
    "after-dead-letters": (DeadLetters, "replace_pending", "after"),
    "before-target": (lake_run, "append_with_offsets", "before"),
    "after-target": (lake_run, "append_with_offsets", "after"),
}

REPLAY_STEPS: Steps = {
    "replay-before-dead-letters": (DeadLetters, "begin_replay", "before"),
    "replay-after-dead-letters": (DeadLetters, "begin_replay", "after"),
    "replay-before-target": (replay, "overwrite_ranges", "before"),
    "replay-after-target": (replay, "overwrite_ranges", "after"),
    "replay-after-settling": (DeadLetters, "settle_replay", "after"),
}
REPLAY_DIES_AT_CALL = 2
ATTEMPTS = 10
"""More than a rival's commits: rivals that start at the same moment may lose to each of them."""
LATEST_STEPS: Steps = {
    **{f"latest-{name}": STEPS[name] for name in STEPS if "target" not in name},
    "latest-before-deleted-keys": (upserts, "write_deleted_keys", "before"),
    "latest-after-deleted-keys": (upserts, "write_deleted_keys", "after"),
    "latest-before-commit": (file_commits, "write_version", "before"),
    "latest-after-commit": (upserts, "remove_old_files", "before"),
    "latest-after-target": (lake_run, "upsert", "after"),
}
LATEST_REPLAY_STEPS: Steps = {
    "latest-replay-before-dead-letters": REPLAY_STEPS["replay-before-dead-letters"],
    "latest-replay-after-dead-letters": REPLAY_STEPS["replay-after-dead-letters"],
    "latest-replay-before-commit": (file_commits, "write_version", "before"),
    "latest-replay-after-target": (replay, "upsert", "after"),
    "latest-replay-after-settling": REPLAY_STEPS["replay-after-settling"],
}
ALL_STEPS = {**STEPS, **REPLAY_STEPS, **LATEST_STEPS, **LATEST_REPLAY_STEPS}


def lenient(records: Any) -> Any:
    """The transform that a replay uses accepts rejected amounts, and rejects others."""
    return clean_orders(records.selectExpr("* EXCEPT (amount)", "3 - amount AS amount"))


def correcting(records: Any) -> Any:
    """The transform that a replay of accounts uses."""
    return newest_accounts(records.selectExpr("* EXCEPT (balance)", "3 - balance AS balance"))


def main(remote: str, log_path: str, limit: str, step: str, *lakes: str) -> None:
    log = pickle.loads(Path(log_path).read_bytes())
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    is_replay, is_latest = "replay" in step, step.startswith("latest")
    table = (accounts_table if is_latest else orders_table)(
        **({"function": correcting if is_latest else lenient} if is_replay else {})
    )
    plant(ALL_STEPS, step, REPLAY_DIES_AT_CALL if is_replay and not is_latest else 1)
    for lake in lakes:
        context = run_context(
            log, Path(lake), session, records_per_run=int(limit), commit_attempts=ATTEMPTS
        )
        if is_replay:
            list(replay.run_replay(table, context, ReplayRequest(is_everything=True)))
            continue
        lake_run.run_topic_table(table, context)
