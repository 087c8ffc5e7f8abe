"""The checkpoints of a log directory with very many partitions."""

import gc
import sys
from pathlib import Path
from random import Random
from types import FrameType, SimpleNamespace
from typing import Any, cast

from log_service.common.types import TopicPartition
from log_service.storage.checkpoint_writer import CheckpointWriter
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory
from tests.sim.files import MemoryFiles

DIRECTORY = Path("/data")


def test_a_new_log_copies_no_checkpoint() -> None:
    """Each new log of a directory copied the entries of all others, twice."""
    files = MemoryFiles(rng=Random(0))
    files.make_directory(DIRECTORY)
    directory = LogDirectory(DIRECTORY)
    writer = CheckpointWriter(files, {}, lambda _path: ())
    known = TopicPartition("a", 0)
    writer.lower_high_watermark(directory, known, -1)
    called: list[str] = []

    def note(_frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            called.append(argument.__name__)

    sys.setprofile(note)
    try:
        writer.forget(directory, TopicPartition("a", 1))
    finally:
        sys.setprofile(None)
    assert "copy" not in called


def test_logs_that_come_while_a_checkpoint_is_written_end_no_node() -> None:
    """A collection of garbage amid the write let the event loop add a log: "dictionary changed".

    Python 3.11 collects within a call that makes many objects, and may switch threads there.
    """
    files = MemoryFiles(rng=Random(0))
    files.make_directory(DIRECTORY)
    directory = LogDirectory(DIRECTORY)
    log = cast("Log", SimpleNamespace(home=directory, recovery_point=1))
    logs = {TopicPartition("a", index): log for index in range(1_000)}
    writer = CheckpointWriter(files, logs, lambda _path: ())

    def add_log(_phase: str, _collection: dict[str, int]) -> None:
        logs[TopicPartition("b", len(logs))] = log

    thresholds, was_enabled = gc.get_threshold(), gc.isenabled()
    gc.callbacks.append(add_log)
    gc.set_threshold(10, *thresholds[1:])
    gc.enable()
    try:
        assert writer.write_recovery_points(directory)
    finally:
        gc.callbacks.remove(add_log)
        gc.set_threshold(*thresholds)
        if not was_enabled:
            gc.disable()
    assert len(logs) > 1_000, "there was no collection"
