"""Measures how long a cluster of three is without service when a node dies, hangs or stops.

    python -m benchmarks.failover --product tidelog

Three nodes are broker and controller, each in a process of its own. A topic has three replicas, of
which two must be in sync. An idempotent confluent-kafka producer with acks=all sends a small record
every few milliseconds. The figure is the longest time between two acknowledgements around the
fault, and a record that fails for good is counted. Where the active controller dies, it is also the
time until a topic can be created. Every fault hits a whole cluster. A node that was killed or
stopped is started again after it.
"""

import argparse
import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from confluent_kafka import Producer

from benchmarks.broker_process import BenchmarkError
from benchmarks.cluster_nodes import (
    CALM_S,
    NODES,
    SERVICE_S,
    Nodes,
    led_by,
    new_name,
    running_cluster,
    until,
)
from benchmarks.wire import Wire
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

PAUSE_S = 0.005
CREATE_TOPICS_VERSION = 7
CLIENT = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "topic.metadata.refresh.interval.ms": 100,
    "socket.timeout.ms": 2_000,
    "delivery.timeout.ms": int(SERVICE_S * 1e3),
    "log_level": 0,
}
"""Settings of the client.

It looks for a new leader each 100 ms, and waits 2 s for a node that hangs. By default it takes 1 s
and 60 s.
"""


@dataclass(slots=True)
class Acknowledged:
    """The times of acknowledgements, and the failures."""

    moments: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def note(self, error: object, _record: object) -> None:
        """Record one delivery report."""
        if error is None:
            self.moments.append(time.monotonic())
        else:
            self.failures.append(str(error))

    def longest_gap_s(self) -> float:
        """Return the longest time between two acknowledgements."""
        return max(
            (
                later - earlier
                for earlier, later in zip(self.moments, self.moments[1:], strict=False)
            ),
            default=SERVICE_S,
        )


def seconds_without_service(
    nodes: Nodes, topic: str, fault: Callable[[], None]
) -> tuple[float, int]:
    """Produce before, during and after a fault.

    Returns the longest gap, and the number of records that failed for good.

    Raises:
        BenchmarkError: the service does not come back.
    """
    producer, seen = Producer({"bootstrap.servers": nodes.bootstrap, **CLIENT}), Acknowledged()
    began_fault: float | None = None
    recovered: float | None = None
    started = time.monotonic()
    while recovered is None or time.monotonic() < recovered + CALM_S:
        now = time.monotonic()
        if began_fault is None and seen.moments and now > started + CALM_S:
            began_fault = now
            fault()
        with contextlib.suppress(BufferError):
            producer.produce(topic, b"x" * 100, on_delivery=seen.note)
        producer.poll(PAUSE_S)
        is_late = began_fault is not None and now > began_fault + 2 * CALM_S
        if recovered is None and is_late and seen.moments and now - seen.moments[-1] < 0.1:
            recovered = now
        if now > started + 2 * SERVICE_S:
            raise BenchmarkError(
                f"records are not acknowledged again {2 * SERVICE_S:.0f} s after the first"
            )
    producer.flush(SERVICE_S)
    return seen.longest_gap_s(), len(seen.failures)


def seconds_until_topic(nodes: Nodes, name: str, asked: int) -> float:
    """Return the time until node ``asked`` has a topic created.

    It is asked again after each refusal. The request goes to that node, whichever controller it
    names, because librdkafka would wait for the controller that is gone.

    Raises:
        BenchmarkError: it was not created within a minute.
    """
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=2)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    with contextlib.closing(Wire(nodes.addresses[asked])) as wire:

        def is_created() -> bool:
            code = (
                wire.ask(request, CREATE_TOPICS_VERSION, CreateTopicsResponse).topics[0].error_code
            )
            return code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}

        return until(
            is_created, 0.01, "a topic is created without the active controller", SERVICE_S
        )


def after_signal(nodes: Nodes, number: int, *, is_controller: bool = False) -> tuple[float, int]:
    """Send a signal to the leader of a new topic, which is the active controller or is not.

    Returns the result of ``seconds_without_service``. The cluster is whole again afterwards.
    """
    controller = nodes.active_controller()
    victim = controller if is_controller else next(node for node in NODES if node != controller)
    topic = new_name()
    nodes.create_topic(topic, led_by(victim))
    if nodes.leader(topic) != victim:
        raise BenchmarkError(
            f"node {victim} does not lead {topic}, which was created for it to lead"
        )
    found = seconds_without_service(
        nodes, topic, lambda: nodes.processes[victim].send_signal(number)
    )
    if number == signal.SIGSTOP:
        nodes.processes[victim].send_signal(signal.SIGCONT)
    else:
        nodes.restart(victim)
    nodes.until_whole(topic)
    return found


def after_controller(nodes: Nodes) -> float:
    """Kill the active controller, and return the seconds until a broker has a topic created."""
    controller = nodes.active_controller()
    asked = next(node for node in NODES if node != controller)
    nodes.processes[controller].send_signal(signal.SIGKILL)
    created_s = seconds_until_topic(nodes, new_name(), asked)
    nodes.restart(controller)
    return created_s


def measure(nodes: Nodes) -> Iterator[tuple[str, str]]:
    """Yield each figure with its name."""
    for name, number, is_controller in (
        ("kill -9 of a leader", signal.SIGKILL, False),
        ("kill -9 of a leader that is the active controller", signal.SIGKILL, True),
        ("clean stop of a leader", signal.SIGTERM, False),
        ("clean stop of a leader that is the active controller", signal.SIGTERM, True),
        ("SIGSTOP of a leader", signal.SIGSTOP, False),
    ):
        gap_s, failed_count = after_signal(nodes, number, is_controller=is_controller)
        yield name, f"{gap_s:.2f} s, {failed_count} records failed"
    yield (
        "kill -9 of the active controller: until a topic is created",
        f"{after_controller(nodes):.2f} s",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.failover", description="Seconds without service of three nodes."
    )
    parser.add_argument("--product", choices=("tidelog", "kafka"), default="tidelog")
    product = parser.parse_args().product
    with running_cluster(product) as nodes:
        for name, figure in measure(nodes):
            print(f"{product}: {name}: {figure}", flush=True)


if __name__ == "__main__":
    main()
