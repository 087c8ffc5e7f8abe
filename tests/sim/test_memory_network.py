"""The memory network keeps the contract of ``Network``, and misbehaves as it was told."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from log_service.common.env import Network
from tests.helpers.network_contract import NetworkContract, receive_exactly
from tests.sim import MemoryNetwork, Weather
from tests.sim.network import MemoryConnection


class TestMemoryNetwork(NetworkContract):
    @pytest.fixture
    def network(self) -> Network:
        return MemoryNetwork()


class TestMemoryNetworkInRoughWeather(NetworkContract):
    @pytest.fixture
    def network(self) -> Network:
        return MemoryNetwork(
            Random(1), Weather(max_latency=0.000_01, max_chunk_bytes=100_000, window_bytes=70_000)
        )


async def link(network: MemoryNetwork) -> tuple[MemoryConnection, MemoryConnection]:
    listener = await network.host("b").listen("", 9092)
    ours = await network.host("a").connect("b", 9092)
    return ours, await listener.accept()


def test_latency_is_within_its_bounds_and_keeps_the_order() -> None:
    async def main() -> None:
        network = MemoryNetwork(Random(3), Weather(min_latency=1, max_latency=2, max_chunk_bytes=3))
        ours, theirs = await link(network)
        begun = trio.current_time()
        await ours.send_gathered([bytes(range(100))])
        assert await receive_exactly(theirs, 100) == bytes(range(100))
        assert 1 <= trio.current_time() - begun <= 2
        assert (theirs.peer_host, theirs.local_host) == ("a", "b")

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_cut_holds_bytes_back_in_one_direction_until_healed() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        ours, theirs = await link(network)
        network.cut("a", "b")
        await ours.send_gathered([b"held"])
        await theirs.send_gathered([b"passes"])
        assert await receive_exactly(ours, 6) == b"passes"
        with trio.move_on_after(5) as waiting:
            await theirs.receive_into(bytearray(9))
        assert waiting.cancelled_caught

        async def heal() -> None:
            await trio.sleep(5)
            network.heal()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(heal)
            assert await receive_exactly(theirs, 4) == b"held"
        assert trio.current_time() == pytest.approx(10)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_connecting_through_a_cut_waits() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        await network.host("b").listen("", 9092)
        network.isolate("a", ["b"])
        with trio.move_on_after(60) as waiting:
            await network.host("a").connect("b", 9092)
        assert waiting.cancelled_caught
        network.heal()
        await network.host("a").connect("b", 9092)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_reset_fails_both_ends_and_loses_what_was_under_way() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        ours, theirs = await link(network)
        await ours.send_gathered([b"lost"])
        assert network.reset_connections("b") == 1
        for end in (ours, theirs):
            with pytest.raises(ConnectionResetError):
                await end.receive_into(bytearray(1))
            with pytest.raises(ConnectionResetError):
                await end.send_gathered([b"x"])
        assert network.reset_connections("b") == 0

    trio.run(main)


def test_crashed_host_refuses_and_its_address_is_free_again() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        ours, _ = await link(network)
        network.crash_host("b")
        with pytest.raises(ConnectionResetError):
            await ours.receive_into(bytearray(1))
        with pytest.raises(ConnectionRefusedError):
            await network.host("a").connect("b", 9092)
        await network.host("b").listen("", 9092)

    trio.run(main)


def test_a_host_refuses_another_until_healed_and_keeps_what_is_open() -> None:
    async def main() -> None:
        network = MemoryNetwork(Random(1))
        ours, theirs = await link(network)
        network.refuse("a", "b")
        with pytest.raises(ConnectionRefusedError):
            await network.host("a").connect("b", 9092)
        await ours.send_gathered([b"still"])
        assert await receive_exactly(theirs, 5) == b"still"
        (await network.host("c").connect("b", 9092)).close()
        network.heal("b")
        (await network.host("a").connect("b", 9092)).close()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_hosts_have_addresses_of_their_own() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        for name in ("a", "b"):
            await network.host(name).listen("", 9092)
        with pytest.raises(OSError, match="not an address of a"):
            await network.host("a").listen("b", 9093)

    trio.run(main)


def test_a_slow_link_is_slow_in_one_direction_until_healed() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        ours, theirs = await link(network)
        network.slow("a", "b", Weather(min_latency=3, max_latency=3))
        for sender, receiver, seconds in ((ours, theirs, 3), (theirs, ours, 0)):
            begun = trio.current_time()
            await sender.send_gathered([b"ping"])
            assert await receive_exactly(receiver, 4) == b"ping"
            assert trio.current_time() - begun == pytest.approx(seconds)
        network.heal()
        await ours.send_gathered([b"ping"])
        with trio.fail_after(1):
            await receive_exactly(theirs, 4)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_nothing_happens_to_a_quiet_host_but_the_death_of_the_other() -> None:
    async def main() -> None:
        network = MemoryNetwork(Random(3), Weather(min_latency=1, max_latency=2, max_chunk_bytes=3))
        network.quiet_hosts.add("a")
        ours, theirs = await link(network)
        network.isolate("a", ["b"])
        assert network.reset_connections("b") == 0
        await ours.send_gathered([b"at once"])
        assert await receive_exactly(theirs, 7) == b"at once"
        assert trio.current_time() == 0
        network.crash_host("b")
        with pytest.raises(ConnectionResetError):
            await ours.receive_into(bytearray(1))

    trio.run(main, clock=MockClock(autojump_threshold=0))
