"""The lock of an installation can be held by its owner alone, whatever the umask was.

Others are told whose it is.
"""

import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from log_service.common.errors import StorageError
from log_service.supervisor import state
from log_service.supervisor.state import ComponentState


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A umask that closes nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("open_umask")
def test_no_other_account_can_open_the_lock_nor_put_files_beside_it(tmp_path: Path) -> None:
    with state.held_lock(tmp_path / "data"):
        assert mode_of(tmp_path / "data" / state.LOCK_FILE) == 0o600
        assert mode_of(tmp_path / "data") == 0o755
        assert state.is_locked(tmp_path / "data")
    assert not state.is_locked(tmp_path / "data")


@pytest.mark.usefixtures("open_umask")
def test_what_runs_complain_of_is_for_the_owner_alone(tmp_path: Path) -> None:
    state.write(tmp_path, {})
    assert mode_of(tmp_path / state.STATE_FILE) == 0o600


def test_a_lock_of_an_earlier_release_is_closed(tmp_path: Path) -> None:
    (tmp_path / state.LOCK_FILE).touch()
    (tmp_path / state.LOCK_FILE).chmod(0o644)
    with state.held_lock(tmp_path):
        assert mode_of(tmp_path / state.LOCK_FILE) == 0o600


def test_another_account_is_told_whose_installation_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StorageError, match=f"{tmp_path} is the installation of another account"):
        state.is_locked(tmp_path)


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[BinaryIO]:
    """The lock of ``tmp_path`` as it is while another process asks whether it is held."""
    (tmp_path / state.LOCK_FILE).touch()
    with (tmp_path / state.LOCK_FILE).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield file


@pytest.mark.usefixtures("asking")
def test_two_that_ask_at_once_do_not_take_each_other_for_a_supervisor(tmp_path: Path) -> None:
    assert not state.is_locked(tmp_path)


def test_a_supervisor_starts_while_another_process_asks_whether_one_runs(
    tmp_path: Path, asking: BinaryIO
) -> None:
    threading.Timer(2 * state.LOCK_PAUSE_S, fcntl.flock, (asking, fcntl.LOCK_UN)).start()
    with state.held_lock(tmp_path):
        assert state.is_locked(tmp_path)


def test_what_an_earlier_supervisor_ran_is_forgotten_at_the_start(tmp_path: Path) -> None:
    state.write(
        tmp_path,
        {
            "broker": ComponentState(
                name="broker", state="ready", address="", pid=1, restart_count=0, log_path=""
            )
        },
    )
    with state.held_lock(tmp_path):
        assert state.read(tmp_path) == []
