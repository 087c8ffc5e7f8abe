"""Same seed, same run; another seed, another run; and the weather is survived either way."""

import gc
import hashlib
import struct
import threading
from pathlib import Path

import pytest
import trio

from log_service.config.views import ListenerConfig, NetworkLimits
from log_service.network.server import ConnectionContext, Response, Server, ServerBudget
from log_service.rpc.channel import open_channel
from tests.helpers import collector
from tests.sim import Crashed, World
from tests.sim.world import sim_run, sim_world


class Digester:
    """Responds with the correlation id and a digest of the request."""

    def connection_closed(self, context: ConnectionContext) -> None:
        pass

    def handle_frame(self, context: ConnectionContext, frame: memoryview) -> Response:
        digest = hashlib.sha256(frame[8:]).digest()
        return [struct.pack(">i", 4 + len(digest)), bytes(frame[4:8]), digest]


async def exchange(world: World) -> int:
    """Three clients ask one server things of many sizes while connections are reset now and then."""
    world.network.weather = world.draw_weather()
    limits = NetworkLimits()
    listener = ListenerConfig(
        name="PLAINTEXT", host="", port=9092, advertised_host="broker", advertised_port=0
    )
    server = Server(
        env=world.node_env("broker"),
        listener=listener,
        limits=limits,
        handler=Digester(),
        shared=ServerBudget(limits),
    )
    response_count = 0

    async def ask(name: str) -> None:
        nonlocal response_count
        env = world.client_env(name)
        remaining = 10
        while remaining:
            try:
                async with open_channel(env, "broker", 9092) as channel:
                    while remaining:
                        content = env.rng.randbytes(env.rng.choice([10, 1_000, 90_000]))
                        request = struct.pack(">ihhi", 8 + len(content), 1, 1, 0) + content
                        frame = await channel.request([request], timeout_ms=60_000)
                        assert frame[4:] == hashlib.sha256(content).digest()
                        remaining -= 1
                        response_count += 1
                        world.log(name, remaining)
            except OSError as error:
                world.log(name, type(error).__name__)
                await trio.sleep(env.rng.uniform(0.01, 0.1))

    async def misbehave() -> None:
        while True:
            await trio.sleep(world.rng.uniform(0.05, 0.5))
            world.network.reset_connections(world.rng.choice(["a", "b", "broker"]))

    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        nursery.start_soon(misbehave)
        async with trio.open_nursery() as clients:
            for name in "abc":
                clients.start_soon(ask, name)
        nursery.cancel_scope.cancel()
    return response_count


def test_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    (first, _), (again, _), (other, _) = (sim_world(seed, exchange) for seed in (7, 7, 8))
    assert first.trace == again.trace
    assert (first.digest, first.step_count) == (again.digest, again.step_count)
    assert first.digest != other.digest


@pytest.mark.parametrize("seed", range(6))
def test_every_request_gets_its_response_in_any_weather(seed: int) -> None:
    assert sim_run(seed, exchange) == 30


def test_scheduler_of_other_tests_is_left_alone() -> None:
    trio_run = trio._core._run
    before = trio_run._r.getstate(), trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    sim_run(1, exchange)
    assert (trio_run._r.getstate(), trio_run._ALLOW_DETERMINISTIC_SCHEDULING) == before


def test_what_was_kept_from_the_collector_before_stays_so() -> None:
    """Keep the tests themselves, as each worker does.

    Collections after a world would go through all of them again.
    """
    collector.set_aside()
    kept = gc.get_freeze_count()
    sim_run(1, exchange)
    assert gc.get_freeze_count() > 0.9 * kept  # what nothing holds any more is gone from there, too


def test_a_loop_in_another_thread_changes_nothing() -> None:
    """A client of a test before may still live in a thread.

    Its loop draws from trio's generator.
    """
    expected, _ = sim_world(3, exchange)
    is_over = threading.Event()
    turns = 0

    async def turn() -> None:
        nonlocal turns
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(trio.lowlevel.checkpoint)
        turns += 1

    async def go_on() -> None:
        while not is_over.is_set():
            await turn()
            await trio.sleep(0.0005)

    thread = threading.Thread(target=trio.run, args=(go_on,))
    thread.start()
    try:
        digests, first = set(), turns
        while turns < first + 3:
            digests.add(sim_world(3, exchange)[0].digest)
    finally:
        is_over.set()
        thread.join()
    assert digests == {expected.digest}


@pytest.mark.parametrize("is_frozen", [True, False])
def test_garbage_is_finalized_outside_of_worlds(is_frozen: bool) -> None:
    finalized: list[str] = []

    class Cycle:
        def __init__(self, name: str) -> None:
            self.name, self.itself = name, self

        def __del__(self) -> None:
            finalized.append(self.name)

    async def litter(_world: World) -> tuple[list[str], list[str]]:
        at_first = list(finalized)
        Cycle("own")
        [[] for _ in range(100_000)]  # of these a collection would take notice
        return at_first, list(finalized)

    if is_frozen:
        collector.set_aside()
    else:
        collector.give_back()
    gc.disable()  # or Python may collect "earlier" before the world begins
    try:
        Cycle("earlier")
        at_first, at_last = sim_run(1, litter)
        assert not gc.isenabled()
        assert at_first == at_last == (["earlier"] if is_frozen else [])
        assert sorted(finalized) == ["earlier", "own"]
    finally:
        collector.set_aside()
        gc.enable()


def test_a_world_gives_the_collector_back() -> None:
    async def nothing(_world: World) -> bool:
        return gc.isenabled()

    assert gc.isenabled()
    assert not sim_run(1, nothing)
    assert gc.isenabled()


def test_node_that_comes_back_finds_what_it_synced() -> None:
    async def main(world: World) -> None:
        env = world.node_env("broker")
        files = env.files
        files.write_atomically(Path("/checkpoint"), b"synced")
        world.crash("broker")
        with pytest.raises(Crashed):
            files.write_atomically(Path("/checkpoint"), b"from the dead")
        again = world.node_env("broker")
        assert again.files.read_bytes(Path("/checkpoint")) == b"synced"
        assert again.rng.random() != env.rng.random()

    sim_run(1, main)


def test_clocks_follow_virtual_time_and_may_be_skewed() -> None:
    async def main(world: World) -> None:
        env = world.node_env("broker")
        begun_wall_ms, begun_ms = env.clock.wall_ms(), env.clock.monotonic_ms()
        await trio.sleep(3_600)
        assert (
            env.clock.wall_ms() - begun_wall_ms == env.clock.monotonic_ms() - begun_ms == 3_600_000
        )
        world.clocks["broker"].skew_ms = -5_000
        assert env.clock.wall_ms() - begun_wall_ms == 3_595_000
        assert env.clock.monotonic_ms() - begun_ms == 3_600_000

    sim_run(1, main)
