"""The node keeps a request no longer than it must.

The tests say when a response is due, and when it is late.
"""

from itertools import count, islice

import pytest
import trio

from log_service.client import Admin, NewTopic, Producer, TopicPartition
from tests.sim import World
from tests.sim.node_history import History, Waited
from tests.sim.node_host import BOOTSTRAP, Death, NodeHost, node_config
from tests.sim.node_plan import draw_plan
from tests.sim.node_runs import play_with_trace
from tests.sim.node_waits import TICK_SECONDS, Visibility, check_waits
from tests.sim.world import sim_run


@pytest.mark.parametrize(
    ("late_seconds", "is_broken"), [(0.0, False), (TICK_SECONDS, False), (2 * TICK_SECONDS, True)]
)
def test_a_response_is_late_from_a_tick_on(late_seconds: float, is_broken: bool) -> None:
    times = count()
    history = History(lambda: float(next(times)))
    history.add(Waited(what="a fetch", late_seconds=late_seconds))
    assert [violation.rule for violation in check_waits(history)] == [
        "what waits is woken"
    ] * is_broken


def test_runs_judge_every_kind_of_wait() -> None:
    kinds: set[str] = set()
    for seed in islice((seed for seed in count() if draw_plan(seed).are_waits_judged), 4):
        outcome, _, entries = play_with_trace(seed)
        assert not outcome.violations, str(outcome)
        kinds |= {entry.what.split()[1] for entry in entries if isinstance(entry, Waited)}
    assert kinds == {"fetch", "poll", "produce", "creation", "deletion"}


def test_an_offset_is_visible_from_the_sync_on_and_to_one_incarnation() -> None:
    partition = TopicPartition("t", 0)

    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            host = NodeHost(world, nursery, *node_config({"log.flush.interval.messages": "1"}))
            visibility = Visibility(host)
            world.clock.on_idle.append(visibility.look)
            incarnation = await host.start()
            async with Admin(BOOTSTRAP, env=world.client_env("admin")) as admin:
                await admin.create_topics([NewTopic(name="t", partition_count=1)])
            incarnation.files.sync_seconds = (2.0, 2.0)
            begun = trio.current_time()
            async with Producer(BOOTSTRAP, env=world.client_env("producer")) as producer:
                delivery = await producer.send("t", value=b"a", partition=0)
                await trio.sleep(1.5)
                assert visibility.since(partition, 0) is None
                await delivery.wait()
            acknowledged = trio.current_time()
            await trio.sleep(5)
            visible = visibility.since(partition, 0)
            assert visible is not None
            assert begun + 2 <= visible <= acknowledged
            assert visibility.since(partition, 1) is None
            assert visibility.since_any({partition: 0, TopicPartition("t", 1): 0}) == visible
            host.die(Death.KILL)
            await host.start()
            await trio.sleep(1)
            again = visibility.since(partition, 0)
            assert again is not None
            assert again > visible
            host.die(Death.KILL)

    sim_run(1, main)
