"""Runs in a process of their own, which dies at a chosen step; started by ``test_kills``.

``killed_run.py REMOTE LOG LIMIT STEP LAKE...``: one run per lake; STEP "none" lets it live.
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
from orchestration.transforms import topic_run
from tests.platform.pipeline import orders_table, run_context

KILLED = 137
STEPS: dict[str, tuple[Any, str, str]] = {
    "before-table-is-created": (topic_run, "_target", "before"),
    "after-table-is-created": (topic_run, "_target", "after"),
    "before-dead-letters": (DeadLetters, "replace_pending", "before"),
    "after-dead-letters": (DeadLetters, "replace_pending", "after"),
    "before-target": (topic_run, "append_with_offsets", "before"),
    "after-target": (topic_run, "append_with_offsets", "after"),
}


def dying(function: Callable[..., Any], when: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            os._exit(KILLED)
        function(*args, **kwargs)
        os._exit(KILLED)

    return call


def main(remote: str, log_path: str, limit: str, step: str, *lakes: str) -> None:
    log = pickle.loads(Path(log_path).read_bytes())
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    if step != "none":
        owner, name, when = STEPS[step]
        mock.patch.object(owner, name, dying(getattr(owner, name), when)).start()
    for lake in lakes:
        topic_run.run_topic_table(orders_table(), run_context(log, Path(lake), session, records_per_run=int(limit)))


if __name__ == "__main__":
    main(*sys.argv[1:])
