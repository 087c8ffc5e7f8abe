"""The demo empties its own directory, and never touches another's files."""

from pathlib import Path

import pytest

from log_service.supervisor.state import held_lock
from orchestration.demo.directory import MARKER, DemoError, prepare_directory


def test_a_new_directory_is_made_and_marked(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "a" / "demo")
    assert [entry.name for entry in (tmp_path / "a" / "demo").iterdir()] == [MARKER]


def test_what_an_earlier_demo_left_is_removed(tmp_path: Path) -> None:
    prepare_directory(tmp_path)
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    prepare_directory(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [MARKER]


def test_a_link_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("mine")
    prepare_directory(tmp_path / "demo")
    (tmp_path / "demo" / "link").symlink_to(tmp_path / "elsewhere")
    prepare_directory(tmp_path / "demo")
    assert (tmp_path / "elsewhere" / "file").read_text() == "mine"


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(DemoError, match="was not made by a demo"):
        prepare_directory(tmp_path)
    assert (tmp_path / "precious").exists()


def test_a_demo_that_runs_is_not_emptied(tmp_path: Path) -> None:
    prepare_directory(tmp_path)
    with held_lock(tmp_path), pytest.raises(DemoError, match="tidelog runs on"):
        prepare_directory(tmp_path)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    with pytest.raises(DemoError, match="is a file"):
        prepare_directory(tmp_path / "demo")
