"""A following run dies between its second commit and the event that tells of it.

It is a process of its own; see ``test_following``. ``killed_follow.py DIRECTORY``: instance, lake
and log of the test are below it.
"""

import os
import pickle
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg

from orchestration.lake.range_commits import append_with_offsets
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from orchestration.transforms.to_lake import run as lake_run
from tests.platform.assets_world import World, clean_orders
from tests.platform.pipeline import append_order
from tests.unit.orchestration.memory_log import MemoryLog

KILLED = 137
LOG = "log.pickle"


def main(directory: Path) -> None:
    log: MemoryLog = pickle.loads((directory / LOG).read_bytes())
    settings = {
        "TIDELOG_DATA": str(directory / "spark"),
        "TIDELOG_SPARK_MASTER": "local[2]",
        "TIDELOG_SPARK_DRIVER_MEMORY": "1g",
    }
    session = open_session(load_settings(settings))
    commits = 0

    def dying_after_the_second(*args: Any, **kwargs: Any) -> Any:
        nonlocal commits
        result = append_with_offsets(*args, **kwargs)
        commits += 1
        if commits == 2:
            os._exit(KILLED)
        return result

    def append_another(_timeout_ms: int) -> None:
        append_order(log, "b")

    with (
        dg.instance_for_test(temp_dir=str(directory)) as instance,
        mock.patch.object(lake_run, "append_with_offsets", dying_after_the_second),
    ):
        world = World(directory, session, instance)
        world.log.topics.update(log.topics)
        world.log.on_wait = append_another
        world.materialize(clean_orders, config={"follow_s": 600})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
