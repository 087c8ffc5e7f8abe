"""A join writes its state to the disk before a commit names it."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from orchestration.rows.join_state import FOLDER, JoinState, StateWriter
from orchestration.rows.joins import SIDES, first_clock


def test_what_is_kept_is_on_the_disk_before_a_commit_can_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[Path, int] = {}

    def note(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced[path] = path.stat().st_size if path.is_file() else len(list(path.iterdir()))

    monkeypatch.setattr(os, "fsync", note)
    kept = {side: pa.table({"id": ["a"]}) for side in SIDES}
    writer = StateWriter(tmp_path)
    writer.write(JoinState(kept=kept, clock=first_clock({side: side for side in SIDES}, 0)))
    folder = tmp_path / FOLDER / str(writer.number)
    whole = {file: file.stat().st_size for file in folder.iterdir()}
    assert len(whole) == 3
    assert synced == {**whole, folder: 3, folder.parent: 1, tmp_path: 1}
