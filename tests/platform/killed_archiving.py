"""Runs of a topic's archive die at a chosen step, in a process of their own.

``test_archive_kills`` starts them. ``main(LOG, LAKE, STEP)``: archives all that waits of the
pickled log, and dies at STEP; "none" lets it live. Steps of the commit are those of the run's
second one.
"""

import pickle
from pathlib import Path

from orchestration.lake.tables import Lake
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.archiving import Archive
from orchestration.transforms.archiving import run as archive_run
from orchestration.transforms.archiving.run import ArchiveContext, run_archive
from tests.platform.dying import Steps, plant
from tests.platform.pipeline import Notes

SPEC = TopicSpec(name="orders", archive=Archive(chunk_records=10))
STEPS: Steps = {
    "before-the-table": (Lake, "create", "before"),
    "after-the-table": (Lake, "create", "after"),
    "before-a-file": (archive_run, "write_chunk", "before"),
    "after-a-file": (archive_run, "write_chunk", "after"),
    "before-files-are-moved": (archive_run, "move_in", "before"),
    "after-files-are-moved": (archive_run, "move_in", "after"),
    "before-the-commit": (archive_run, "commit_chunks", "before"),
    "after-the-commit": (archive_run, "commit_chunks", "after"),
}
SECOND_COMMIT = {
    "before-files-are-moved",
    "after-files-are-moved",
    "before-the-commit",
    "after-the-commit",
}


def main(log_path: str, lake: str, step: str) -> None:
    log = pickle.loads(Path(log_path).read_bytes())
    plant(STEPS, step, 2 if step in SECOND_COMMIT else 1)
    notes = Notes()
    context = ArchiveContext(
        log=log,
        lake=Lake(Path(lake)),
        note=notes.note,
        pin=lambda ranges: notes.pin("archive", ranges),
        run_id=f"run-{step}",
        commit_attempts=10,
    )
    run_archive(SPEC, context)
