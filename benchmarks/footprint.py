"""Measures a broker's time to start in an empty directory, and its memory idle and after a load.

The load is mixed. Each round starts a new broker.
"""

import time

from benchmarks.broker_process import BrokerProcess, running_broker
from benchmarks.consume import consume_values
from benchmarks.produce import produce_alone, produce_values
from benchmarks.rounds import Bench, Prepare
from benchmarks.table import Row, at_most

SETTLE_S = 2.0
WARM_UPS = 2
LARGE_COUNT, SMALL_COUNT, ALONE_COUNT = 800_000, 1_500_000, 60_000


def put_mixed_load_on(broker: BrokerProcess, bench: Bench) -> None:
    """Produce large batches, small values and single records, and read some of them.

    That takes some 15 s at full scale.
    """
    with broker.topic(6) as topic:
        produce_values(broker.address, topic, 1024, bench.count(LARGE_COUNT))
    with broker.topic() as topic:
        count = bench.count(SMALL_COUNT)
        produce_values(broker.address, topic, 100, count)
        consume_values(broker.address, topic, count)
    with broker.topic(16) as topic:
        produce_alone(broker.address, topic, 100, bench.count(ALONE_COUNT, at_least=16))


def warm_up(broker: BrokerProcess, bench: Bench) -> None:
    """Put the load on a broker until a JVM has compiled the code that it needs.

    Each time costs it half of the time before.
    """
    for _ in range(WARM_UPS):
        put_mixed_load_on(broker, bench)


def measure(prepare: Prepare, bench: Bench) -> list[Row]:
    """Measure one round."""
    with running_broker(prepare) as broker:
        time.sleep(SETTLE_S)
        idle_bytes = broker.rss_bytes()
        put_mixed_load_on(broker, bench)
        loaded_bytes = broker.rss_bytes()
    return [
        Row(
            figure="start to first accepted produce",
            unit="s",
            rounds=(broker.start_s,),
            goal=at_most(0.25),
        ),
        Row(figure="RSS idle", unit="MB", rounds=(idle_bytes / 1e6,), goal=at_most(1 / 5)),
        Row(figure="RSS after load", unit="MB", rounds=(loaded_bytes / 1e6,), goal=at_most(1 / 6)),
    ]
