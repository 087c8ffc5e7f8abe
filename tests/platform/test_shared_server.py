"""The Spark server that all processes of a run of tests share: it starts once, and ends after its last user. None is started here."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.platform import spark_server
from tests.platform.spark_server import SharedServer


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []

    @contextmanager
    def server(directory: Path) -> Iterator[tuple[str, None]]:
        name = f"server {len(told)}"
        told.append(f"{name} starts")
        yield name, None
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
