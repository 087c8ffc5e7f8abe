"""A host that is paused: nothing of it runs, time goes on, and it goes on where it was."""

import pytest
import trio
import trio._core._run as trio_run
import trio.testing

from tests.sim import World
from tests.sim.pauses import HOST
from tests.sim.world import sim_run


async def on_host(name: str, act: object, *arguments: object) -> None:
    HOST.set(name)
    await act(*arguments)  # type: ignore[operator]


def test_tasks_of_a_paused_host_do_not_run_and_those_of_others_do() -> None:
    steps: list[tuple[str, float]] = []

    async def tick(name: str) -> None:
        for _ in range(6):
            steps.append((name, trio.current_time()))
            await trio.sleep(1)

    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on_host, "a", tick, "a")
            nursery.start_soon(on_host, "b", tick, "b")
            await trio.sleep(1.5)
            world.pauses.pause("a")
            assert world.pauses.is_paused("a")
            await trio.sleep(3)
            world.pauses.resume("a")
            assert not world.pauses.is_paused("a")

    sim_run(1, main)
    assert [at for name, at in steps if name == "b"] == [0, 1, 2, 3, 4, 5]
    assert [at for name, at in steps if name == "a"] == [0, 1, 4.5, 5.5, 6.5, 7.5]


def test_children_belong_to_the_host_and_a_deadline_that_passed_has_passed() -> None:
    ends: list[tuple[bool, float]] = []

    async def child() -> None:
        with trio.move_on_after(2) as scope:
            await trio.sleep_forever()
        ends.append((scope.cancelled_caught, trio.current_time()))

    async def parent() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)

    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on_host, "a", parent)
            await trio.sleep(1)
            world.pauses.pause("a")
            await trio.sleep(9)
            assert not ends
            world.pauses.resume("a")

    sim_run(1, main)
    assert ends == [(True, 10)]


def test_bytes_reach_the_machine_of_a_paused_host_and_wait_there() -> None:
    received: list[float] = []

    async def serve(world: World) -> None:
        listener = await world.network.host("a").listen("a", 1)
        connection = await listener.accept()
        while await connection.receive_into(bytearray(10)):
            received.append(trio.current_time())

    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on_host, "a", serve, world)
            await trio.sleep(1)
            connection = await world.network.host("b").connect("a", 1)
            world.pauses.pause("a")
            await trio.sleep(1)
            await connection.send_gathered([b"hello"])
            await trio.sleep(1)
            assert not received
            world.pauses.resume("a")
            await trio.sleep(1)
            connection.close()

    sim_run(1, main)
    assert received == [3]


def test_a_paused_host_can_be_cancelled_and_ends_once_it_goes_on() -> None:
    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def live() -> None:
                with scope:
                    await trio.sleep_forever()

            nursery.start_soon(on_host, "a", live)
            await trio.sleep(1)
            world.pauses.pause("a")
            scope.cancel()
            await trio.sleep(1)
            assert nursery.child_tasks
            world.pauses.resume("a")
            await trio.testing.wait_all_tasks_blocked()
            assert not nursery.child_tasks

    sim_run(1, main)


@pytest.mark.parametrize("is_resumed", [True, False])
def test_the_scheduler_is_as_before_once_no_host_is_paused_or_the_world_has_ended(
    is_resumed: bool,
) -> None:
    before = trio_run.Runner.reschedule

    async def main(world: World) -> None:
        world.pauses.pause("a")
        assert trio_run.Runner.reschedule is not before
        if is_resumed:
            world.pauses.resume("a")
            assert trio_run.Runner.reschedule is before

    sim_run(1, main)
    assert trio_run.Runner.reschedule is before
