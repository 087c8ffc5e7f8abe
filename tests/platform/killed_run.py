"""Runs in a process of their own, which dies at a chosen step; started by ``test_kills``.

``killed_run.py REMOTE LOG LIMIT STEP LAKE...``: one run per lake; STEP "none" lets it live. A STEP that begins with "replay" replays
everything with another transform, LIMIT offsets at a time, and dies at its second piece.
"""

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from orchestration.dead_letters import DeadLetters
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from orchestration.transforms import replay_run, topic_run
from tests.platform.pipeline import clean_orders, orders_table, run_context

KILLED = 137
STEPS: dict[str, tuple[Any, str, str]] = {
    "before-table-is-created": (topic_run, "_target", "before"),
    "after-table-is-created": (topic_run, "_target", "after"),
    "before-dead-letters": (DeadLetters, "replace_pending", "before"),
    "after-dead-letters": (DeadLetters, "replace_pending", "after"),
    "before-target": (topic_run, "append_with_offsets", "before"),
    "after-target": (topic_run, "append_with_offsets", "after"),
}

REPLAY_STEPS: dict[str, tuple[Any, str, str]] = {
    "replay-before-dead-letters": (DeadLetters, "begin_replay", "before"),
    "replay-after-dead-letters": (DeadLetters, "begin_replay", "after"),
    "replay-before-target": (replay_run, "overwrite_ranges", "before"),
    "replay-after-target": (replay_run, "overwrite_ranges", "after"),
    "replay-after-settling": (DeadLetters, "settle_replay", "after"),
}
REPLAY_DIES_AT_CALL = 2


def dying(function: Callable[..., Any], when: str, at_call: int = 1) -> Callable[..., Any]:
    calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < at_call:
            return function(*args, **kwargs)
        if when == "before":
            os._exit(KILLED)
        function(*args, **kwargs)
        os._exit(KILLED)

    return call


def lenient(records: Any) -> Any:
    """The transform that a replay uses: amounts that were rejected are accepted, and others are rejected now."""
    return clean_orders(records.selectExpr("* EXCEPT (amount)", "3 - amount AS amount"))


def main(remote: str, log_path: str, limit: str, step: str, *lakes: str) -> None:
    log = pickle.loads(Path(log_path).read_bytes())
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    is_replay = step.startswith("replay")
    if step in STEPS or step in REPLAY_STEPS:
        owner, name, when = STEPS[step] if step in STEPS else REPLAY_STEPS[step]
        at_call = REPLAY_DIES_AT_CALL if is_replay else 1
        mock.patch.object(owner, name, dying(getattr(owner, name), when, at_call)).start()
    for lake in lakes:
        context = run_context(log, Path(lake), session, records_per_run=int(limit))
        if is_replay:
            list(replay_run.run_replay(orders_table(function=lenient), context, replay_run.ReplayRequest(is_everything=True)))
            continue
        topic_run.run_topic_table(orders_table(), context)


if __name__ == "__main__":
    main(*sys.argv[1:])
