"""Changes that wait, and what becomes of them: their number is bounded, and reads go on."""

from functools import partial

import pytest
import trio
import trio.testing

from log_service.http.schema_registry.errors import BUSY, RegistryError
from log_service.http.schema_registry.registry import MAX_CHANGES
from log_service.http.schema_registry.workers import MAX_WAITING, WORKER_COUNT, Workers
from log_service.http.server.values import HttpRequest, HttpResponse
from tests.unit.http.schema_registry.builders import stored
from tests.unit.http.schema_registry.served import Served, tell


def test_a_change_that_waits_for_its_turn_ends_with_its_client() -> None:
    """A topic that cannot be written would keep hundreds of them for hours."""

    async def story(served: Served) -> None:
        never, waiting = trio.Event(), trio.CancelScope()
        served.log.pause = never.wait
        ended: list[str] = []

        async def wait_in_vain() -> None:
            with waiting:
                await served.ask("PUT", "/config/b", {"compatibility": "NONE"})
            ended.append("second")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.ask, "PUT", "/config/a", {"compatibility": "NONE"})
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(wait_in_vain)
            await trio.testing.wait_all_tasks_blocked()
            waiting.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert ended == ["second"]
            never.set()
        assert served.registry.state.own_settings("a") is not None
        assert served.registry.state.own_settings("b") is None

    tell(story)


def test_a_change_in_its_turn_goes_on_without_its_client() -> None:
    """The writer has to know what became of its records."""

    async def story(served: Served) -> None:
        go_on, leaving = trio.Event(), trio.CancelScope()
        served.log.pause = go_on.wait

        async def change() -> None:
            with leaving:
                await served.ask("PUT", "/config/a", {"compatibility": "NONE"})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            await trio.testing.wait_all_tasks_blocked()
            leaving.cancel()
            await trio.testing.wait_all_tasks_blocked()
            go_on.set()
        assert served.registry.state.own_settings("a") is not None

    tell(story)


@pytest.mark.parametrize("is_writer", [True, False])
def test_changes_that_wait_leave_room_for_reads(*, is_writer: bool) -> None:
    """More are refused, also where no instance writes and they wait for an election."""

    async def story(served: Served) -> None:
        go_on = trio.Event()
        served.log.pause = go_on.wait

        async def forward(_request: HttpRequest) -> HttpResponse:
            await go_on.wait()
            return HttpResponse(body=b"{}")

        served.registry.is_writer, served.registry.forward = is_writer, forward
        served.have(stored("a"))
        change = partial(served.ask, "PUT", "/config/a", {"compatibility": "NONE"})
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_CHANGES):
                nursery.start_soon(change)
            await trio.testing.wait_all_tasks_blocked()
            status, answer = await change()
            assert (status, answer["error_code"]) == (503, 503)
            assert (await served.ask("GET", "/subjects/a/versions/1"))[0] == 200
            go_on.set()
        assert (await change())[0] == 200

    tell(story)


def test_few_threads_work_and_few_requests_wait_for_them() -> None:
    """Each thread more makes the event loop wait longer for its turn."""

    async def main() -> None:
        workers, go_on, most = Workers(), trio.Event(), [0, 0]

        async def work() -> None:
            async with workers.turn():
                most[0] += 1
                most[1] = max(most)
                await go_on.wait()
                most[0] -= 1

        async with trio.open_nursery() as nursery:
            for _ in range(WORKER_COUNT + MAX_WAITING):
                nursery.start_soon(work)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RegistryError) as refused:
                await work()
            assert refused.value.code == BUSY
            go_on.set()
        assert most == [0, WORKER_COUNT]
        assert await workers.run_off_loop(lambda: 3) == 3

    trio.run(main)


def test_a_registration_is_refused_where_too_many_schemas_are_examined() -> None:
    """The client may try again. It is no refusal of the schema."""

    async def story(served: Served) -> None:
        go_on = trio.Event()

        async def occupy() -> None:
            async with served.registry.workers.turn():
                await go_on.wait()

        async with trio.open_nursery() as nursery:
            for _ in range(WORKER_COUNT + MAX_WAITING):
                nursery.start_soon(occupy)
            await trio.testing.wait_all_tasks_blocked()
            for target in (
                "/subjects/a/versions",
                "/subjects/a",
                "/compatibility/subjects/a/versions?verbose=true",
            ):
                assert (await served.ask("POST", target, {"schema": '"int"'}))[0] == 503
            go_on.set()

    tell(story)
