"""The code server listens in a directory that no other account can enter, wherever the data lie."""

import os
import tempfile
from pathlib import Path

import pytest

from log_service.common.errors import ConfigError
from orchestration.installation.code_socket import MAX_PATH_BYTES, code_socket


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    room_left = len(os.fsencode(tmp_path)) + 50  # pytest's own path may be long
    monkeypatch.setattr("orchestration.installation.code_socket.MAX_PATH_BYTES", room_left)
    return tmp_path / f"tidelog-{os.getuid()}"


def test_it_lies_in_the_data_directory_where_its_path_is_short_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("orchestration.installation.code_socket.MAX_PATH_BYTES", 1_000)
    (tmp_path / "data" / "dagster" / "code").mkdir(mode=0o755, parents=True)
    path = code_socket(Path("data"))
    assert path == tmp_path / "data" / "dagster" / "code" / "server.sock"
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_it_lies_among_temporary_files_where_that_path_would_be_too_long(
    temporary: Path, tmp_path: Path
) -> None:
    first, second = (
        code_socket(tmp_path / name / ("long" * MAX_PATH_BYTES)[:200]) for name in "ab"
    )
    assert first.parent == second.parent == temporary
    assert first != second
    assert temporary.stat().st_mode & 0o777 == 0o700
    assert code_socket(tmp_path / "a" / ("long" * MAX_PATH_BYTES)[:200]) == first


@pytest.mark.parametrize("kind", ["open to others", "a link", "a link to nothing", "a file"])
def test_a_directory_that_others_could_have_made_is_refused(
    kind: str, temporary: Path, tmp_path: Path
) -> None:
    if kind == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        temporary.symlink_to(tmp_path / "elsewhere")
    elif kind == "a link to nothing":
        temporary.symlink_to(tmp_path / "nothing")
    elif kind == "a file":
        temporary.write_bytes(b"")
    else:
        temporary.mkdir(mode=0o755)
    with pytest.raises(
        ConfigError,
        match=f"{temporary} has to be a directory of this account's that no other can enter",
    ):
        code_socket(tmp_path / ("long" * MAX_PATH_BYTES)[:200])


def test_a_directory_for_temporary_files_whose_path_is_too_long_as_well_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would end with whatever gRPC says of an address that does not fit."""
    deep = tmp_path / ("long" * MAX_PATH_BYTES)[:200]
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(
        ConfigError,
        match=r"server's socket is longer than 100 bytes: set TMPDIR to a directory with a shorter path",
    ):
        code_socket(deep)
