"""Files of killed runs are removed, also where a file vanishes between the two looks at it."""

import os
from pathlib import Path

import pytest

from orchestration.lake.abandoned_files import STAGING_AGE_S, STAGING_PREFIX, old_ones
from orchestration.lake.tables import Lake
from orchestration.retained.archive_files import staging
from orchestration.transforms.batch.intake import new_scratch_file
from orchestration.warehouse.store import Warehouse


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with something old and something young.

    A link to nothing is found by its name and gone when it is looked at.
    """
    for name, age_s in (("old", STAGING_AGE_S + 60), ("young", 0)):
        made = tmp_path / f"{STAGING_PREFIX}{name}"
        made.mkdir()
        moment = made.stat().st_mtime - age_s
        os.utime(made, (moment, moment))
    (tmp_path / f"{STAGING_PREFIX}gone").symlink_to(tmp_path / "nowhere")
    return tmp_path


def test_what_is_old_is_found_and_what_vanishes_is_passed_over(folder: Path) -> None:
    assert [found.name for found in old_ones(folder, f"{STAGING_PREFIX}*", STAGING_AGE_S)] == [
        f"{STAGING_PREFIX}old"
    ]
    assert list(old_ones(folder / "nowhere", "*", 0)) == []


def test_a_folder_that_vanishes_fails_no_archive(folder: Path) -> None:
    with staging(folder) as made:
        assert made.is_dir()
        assert not (folder / f"{STAGING_PREFIX}old").exists()
    assert (folder / f"{STAGING_PREFIX}young").is_dir()


def test_a_file_that_vanishes_fails_no_run_and_no_mart(tmp_path: Path) -> None:
    (tmp_path / "batch-1.parquet").symlink_to(tmp_path / "nowhere")
    assert new_scratch_file(tmp_path).parent == tmp_path
    warehouse = Warehouse(tmp_path / "marts", Lake(tmp_path / "lake"))
    warehouse.directory.mkdir()
    (warehouse.directory / ".total.killed.duckdb").symlink_to(tmp_path / "nowhere")
    assert warehouse.build("total", "SELECT 1 AS total").rows == 1
