"""An error about files of another user names the operation, the user and the owner.

It never names another process.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from log_service.common.errors import StorageError
from log_service.storage.files import LOCK_FILE, RealFiles
from log_service.storage.log_directory import LogDirectory, directory_named
from log_service.storage.refused_access import own_name

DATA = Path("data")
NOBODY = 65534


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealFiles:
    """A relative directory, because another user may not walk through the ones above it."""
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    DATA.mkdir()
    return RealFiles(pool_threads=1)


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user whom modes stop: who runs this may be root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def write_lock(files: RealFiles) -> None:
    (DATA / LOCK_FILE).touch()
    (DATA / LOCK_FILE).chmod(0o444)
    with without_rights():
        files.lock_directory(DATA)


def make_lock(files: RealFiles) -> None:
    DATA.chmod(0o555)
    with without_rights():
        files.lock_directory(DATA)


def read_directory(files: RealFiles) -> None:
    DATA.chmod(0o000)
    with without_rights():
        files.lock_directory(DATA)


def list_directory(files: RealFiles) -> None:
    DATA.chmod(0o111)
    with without_rights():
        files.list_directory(DATA)


def read_file(files: RealFiles) -> None:
    (DATA / "meta.properties").touch()
    (DATA / "meta.properties").chmod(0o000)
    with without_rights():
        files.read_bytes(DATA / "meta.properties")


def replace_file(files: RealFiles) -> None:
    DATA.chmod(0o555)
    with without_rights():
        files.write_atomically(DATA / "meta.properties", b"")


def open_log(files: RealFiles) -> None:
    (DATA / "0.log").touch()
    (DATA / "0.log").chmod(0o444)
    with without_rights():
        files.open(DATA / "0.log")


def make_directory(files: RealFiles) -> None:
    DATA.chmod(0o555)
    with without_rights():
        files.make_directory(DATA / "a-0")


def rename_log(files: RealFiles) -> None:
    (DATA / "a-0").mkdir()
    DATA.chmod(0o555)
    with without_rights():
        files.rename(DATA / "a-0", DATA / "a-0.stray")


def remove_segment(files: RealFiles) -> None:
    (DATA / "0.log").touch()
    DATA.chmod(0o555)
    with without_rights():
        files.remove(DATA / "0.log")


def remove_log(files: RealFiles) -> None:
    (DATA / "a-0").mkdir()
    (DATA / "a-0" / "0.log").touch()
    with without_rights():
        files.remove_tree(DATA / "a-0")


@pytest.mark.parametrize(
    ("refused", "operation", "named", "mode"),
    [
        (write_lock, "write", "data/.lock", "0444"),
        (make_lock, "write", "data", "0555"),
        (read_directory, "read", "data", "0000"),
        (list_directory, "list", "data", "0111"),
        (read_file, "read", "data/meta.properties", "0000"),
        (replace_file, "write", "data", "0555"),
        (open_log, "write", "data/0.log", "0444"),
        (make_directory, "make", "data", "0555"),
        (rename_log, "rename", "data", "0555"),
        (remove_segment, "remove", "data", "0555"),
        (remove_log, "remove", "data/a-0", "0755"),
    ],
)
def test_missing_rights_are_told_with_user_owner_and_mode(
    files: RealFiles, refused: Callable[[RealFiles], None], operation: str, named: str, mode: str
) -> None:
    """The lock said that another process holds it, and the others said ``Permission denied`` alone."""
    owner = own_name()
    with without_rights():
        user = own_name()
    with pytest.raises(PermissionError) as caught:
        refused(files)
    expected = f"Permission denied to {operation} it as user {user}; {named} belongs to user {owner}, mode {mode}"
    assert (caught.value.errno, caught.value.strerror) == (errno.EACCES, expected)


def test_a_failure_while_the_node_runs_names_path_and_remedy(files: RealFiles) -> None:
    """It said ``look at the disk``, where a directory's rights had been changed."""
    with pytest.raises(PermissionError) as caught:
        remove_log(files)
    refusal = str(LogDirectory(DATA).note_error(caught.value))
    assert "'data/a-0/0.log'" in refusal
    assert "(chown -R) and restart" in refusal


def test_the_advice_is_to_give_the_directory_to_the_user(files: RealFiles) -> None:
    with (
        pytest.raises(
            StorageError, match=rf"data cannot be used: .*data/\.lock.*chown -R {own_name()} data"
        ),
        directory_named(DATA),
    ):
        write_lock(files)


def test_a_directory_without_rights_that_is_locked_is_in_use(files: RealFiles) -> None:
    """The lock of the directory is asked for first: the file is not touched while it is held."""
    lock = files.lock_directory(DATA)
    (DATA / LOCK_FILE).chmod(0o444)
    with without_rights(), pytest.raises(BlockingIOError, match="another process"):
        files.lock_directory(DATA)
    lock.release()
