"""The Spark server that all processes of a run of tests share starts once.

It ends after its last user. None is started here.
"""

import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.platform import spark_server
from tests.platform.spark_server import SharedServer


@pytest.fixture
def processes() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Stand for those of the servers."""
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield [*started]
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, processes: list["subprocess.Popen[bytes]"]) -> list[str]:
    told: list[str] = []

    @contextmanager
    def server(directory: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
        name = f"server {len(told)}"
        told.append(f"{name} starts")
        yield name, processes.pop(0)
        told.append(f"{name} ends")

    monkeypatch.setattr(spark_server, "warm_server", server)
    monkeypatch.setattr(spark_server, "LEAVE_POLL_S", 0.001)
    return told


def test_it_starts_once_and_ends_after_its_last_user(told: list[str], tmp_path: Path) -> None:
    starter, other, late = (SharedServer(tmp_path / "server") for _ in range(3))
    assert starter.use() == other.use() == "server 0"
    with ThreadPoolExecutor() as threads:
        leaving = threads.submit(starter.leave)
        assert late.use() == "server 0", "whoever comes while the starter waits has it, too"
        other.leave()
        assert told == ["server 0 starts"]
        assert not leaving.done()
        late.leave()
        leaving.result(60)
    assert told == ["server 0 starts", "server 0 ends"]


def test_who_comes_after_its_end_starts_another(told: list[str], tmp_path: Path) -> None:
    first, second = SharedServer(tmp_path / "server"), SharedServer(tmp_path / "server")
    first.use()
    first.leave()
    assert second.use() == "server 2"
    second.leave()
    assert told == ["server 0 starts", "server 0 ends", "server 2 starts", "server 2 ends"]


def test_of_a_starter_that_has_died_the_last_user_ends_the_server(
    told: list[str], processes: list["subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    process = processes[0]
    starter, other, last, late = (SharedServer(tmp_path / "server") for _ in range(4))
    for user in (starter, other, last):
        assert user.use() == "server 0"
    die(starter)
    other.leave()
    assert process.poll() is None
    last.leave()
    assert process.wait(60) == -signal.SIGTERM
    assert late.use() == "server 1"
    late.leave()
    assert told[-1] == "server 1 ends"


def die(starter: SharedServer) -> None:
    """Let go of what a process that dies lets go of."""
    for opened in (starter._use, starter._life):
        assert opened is not None
        opened.close()
