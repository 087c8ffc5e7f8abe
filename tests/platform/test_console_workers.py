"""A process of the platform ends at its deadline, when idle and with the console, and starts anew."""

import tempfile
from pathlib import Path

import psutil
import pytest
import trio
import trio.testing

from log_service.http.server.values import HttpError
from orchestration.console.worker import MAX_OF_PERSON, Worker, WorkerKind
from tests.platform.console_project import LONG

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]
PATIENCE_S = 60.0


def test_a_process_is_ended_at_the_deadline_and_when_idle_and_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spills of a question that took too long stayed on the disk."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    async def run() -> None:
        kind = WorkerKind(name="questions", idle_s=0.1, deadline_s=60.0, has_own_folder=True)
        hurried = WorkerKind(name="questions", idle_s=60.0, deadline_s=0.5)
        async with trio.open_nursery() as nursery:
            worker = Worker(kind, tmp_path)
            for turn in range(2):
                found = await worker.ask(nursery, "sql", question="SELECT 42 AS n", relations=[])
                assert found["rows"] == [[42]]
                assert worker.process_id is not None
                if not turn:
                    (own,) = temporary.iterdir()
                    (own / "spill").touch()
                ended = psutil.Process(worker.process_id)
                await trio.to_thread.run_sync(ended.wait, PATIENCE_S)
                assert worker.process_id is None
            other = Worker(hurried, tmp_path)
            with pytest.raises(HttpError, match="it took more than"):
                await other.ask(nursery, "sql", question=LONG, relations=[])
            assert other.process_id is None
            with pytest.raises(HttpError, match="questions only read"):
                await worker.ask(nursery, "sql", question="CREATE TABLE x (n INT)", relations=[])
            nursery.cancel_scope.cancel()
        assert worker.process_id is None
        assert list(temporary.iterdir()) == []

    trio.run(run)


def test_the_requests_of_one_person_leave_places_to_others(tmp_path: Path) -> None:
    async def run() -> None:
        worker = Worker(WorkerKind(name="questions", idle_s=60.0, deadline_s=60.0), tmp_path)
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                await worker.ask(nursery, "sql", user="ann", question=LONG, relations=[])

            for _ in range(MAX_OF_PERSON):
                nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(HttpError, match="you wait for too much"):
                await ask()
            with trio.move_on_after(0) as scope:
                await worker.ask(nursery, "sql", user="bob", question=LONG, relations=[])
            assert scope.cancelled_caught
            nursery.cancel_scope.cancel()

    trio.run(run)
