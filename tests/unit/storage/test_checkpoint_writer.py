"""The checkpoints of a log directory with very many partitions."""

import sys
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from log_service.common.types import TopicPartition
from log_service.storage.checkpoint_writer import CheckpointWriter
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
