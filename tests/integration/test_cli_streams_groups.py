"""``tidelog groups`` handles groups of Kafka Streams instances (KIP-1071) as other groups.

They are listed, described, moved and deleted.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from log_service.client import BlockingAdmin, TopicPartition
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tests.integration.command_line import Finished, run
from tests.integration.wire import Wire

READY_SECONDS = 30.0


@pytest.fixture
def tidelog(tidelog_bootstrap: str) -> Callable[..., Finished]:
    """Run a command against the shared cluster."""
    return lambda *arguments: run(arguments, bootstrap=tidelog_bootstrap)


def as_json(finished: Finished) -> Any:
    assert finished.exit_code == 0, finished.errors
    return json.loads(finished.output)


class Instance:
    """An instance that only reports."""

    def __init__(self, wire: Wire, group: str) -> None:
        self.wire = wire
        self.group = group

    def beat(self, epoch: int, topology: Topology | None = None) -> Any:
        owned: list[Any] | None = None if topology is None else []
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group,
            member_id="an-instance",
            member_epoch=epoch,
            rebalance_timeout_ms=30_000,
            topology=topology,
            process_id="a-process",
            active_tasks=owned,
            standby_tasks=owned,
            warmup_tasks=owned,
        )
        return self.wire.ask(request, 0)

    def join(self, *topics: str) -> None:
        """Join, and wait until there are tasks."""
        deadline = time.monotonic() + READY_SECONDS
        while (
            self.wire.ask(FindCoordinatorRequest(coordinator_keys=[self.group]), 4)
            .coordinators[0]
            .error_code
        ):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        topology = Topology(
            subtopologies=[Subtopology(subtopology_id="0", source_topics=list(topics))]
        )
        response = self.beat(0, topology)
        while not response.active_tasks:
            assert time.monotonic() < deadline, response
            time.sleep(0.2)
            response = self.beat(response.member_epoch)


def test_a_streams_group_is_looked_after_as_other_groups_are(
    tidelog: Callable[..., Finished], tidelog_bootstrap: str, wire: Wire, topic: str, name: str
) -> None:
    instance = Instance(wire, name)
    tidelog("configs", "set", "streams.initial.rebalance.delay.ms=0", "--group", name)
    instance.join(topic)
    (listed,) = (
        row for row in as_json(tidelog("groups", "list", "--json")) if row["group_id"] == name
    )
    assert (listed["group_type"], listed["protocol_type"], listed["state"]) == (
        "streams",
        "streams",
        "Stable",
    )
    told = as_json(tidelog("groups", "describe", name, "--json"))
    assert (
        told["protocol_type"],
        told["assignor"],
        [row["partitions"] for row in told["members"]],
    ) == (
        "streams",
        "sticky",
        [[f"{topic}-0"]],
    )
    assert [(row["committed"], row["client"]) for row in told["offsets"]] == [(None, "wire")]
    busy = tidelog("groups", "reset", name, "--topic", topic, "--to-offset", "0", "--execute")
    assert busy.exit_code == 1
    assert "it has members" in busy.errors
    assert tidelog("groups", "delete", name, "-y").exit_code == 1
    instance.beat(-1)
    assert (
        as_json(
            tidelog(
                "groups", "reset", name, "--topic", topic, "--to-earliest", "--execute", "--json"
            )
        )[0]["new"]
        == 0
    )
    with BlockingAdmin(tidelog_bootstrap) as admin:
        assert admin.list_group_offsets(name)[TopicPartition(topic, 0)].offset == 0
        assert admin.describe_groups([name])[name].state == "Empty"
    assert tidelog("groups", "delete", name, "-y").output == f"deleted {name}\n"
    assert tidelog("groups", "describe", name).exit_code == 1
