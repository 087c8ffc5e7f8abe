"""``tidelog groups`` handles share groups (KIP-932) as other groups.

They are listed, described, moved, made to forget topics, and deleted.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.integration.command_line import Finished, run
from tests.integration.wire import Wire

READY_SECONDS = 30.0


@pytest.fixture
def tidelog(tidelog_bootstrap: str) -> Callable[..., Finished]:
    """Run a command against the shared cluster, in which there are share groups."""
    update = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=1)
    with Wire(tidelog_bootstrap) as wire:
        wire.ask(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update]), 1)
    return lambda *arguments: run(arguments, bootstrap=tidelog_bootstrap)


def as_json(finished: Finished) -> Any:
    assert finished.exit_code == 0, finished.errors
    return json.loads(finished.output)


class Member:
    """A member of a share group that only reports."""

    def __init__(self, wire: Wire, group: str) -> None:
        self.wire = wire
        self.group = group
        self.epoch = 0

    def beat(self, epoch: int | None = None, topics: list[str] | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id="reader",
            member_epoch=self.epoch if epoch is None else epoch,
            subscribed_topic_names=topics,
        )
        response = self.wire.ask(request, 1)
        self.epoch = response.member_epoch
        return response

    def join(self, topic: str) -> None:
        """Join, and wait until there are partitions."""
        deadline = time.monotonic() + READY_SECONDS
        while (
            self.wire.ask(FindCoordinatorRequest(coordinator_keys=[self.group]), 4)
            .coordinators[0]
            .error_code
        ):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        while True:
            response = self.beat(topics=[topic])
            if response.assignment is not None and response.assignment.topic_partitions:
                return
            assert time.monotonic() < deadline, response
            time.sleep(0.2)


def test_a_share_group_is_looked_after_as_other_groups_are(
    tidelog: Callable[..., Finished], wire: Wire, topic: str, name: str
) -> None:
    member = Member(wire, name)
    member.join(topic)
    (listed,) = (
        row for row in as_json(tidelog("groups", "list", "--json")) if row["group_id"] == name
    )
    assert (listed["group_type"], listed["state"]) == ("share", "Stable")
    told = as_json(tidelog("groups", "describe", name, "--json"))
    assert (
        told["assignor"],
        told["protocol_type"],
        [row["partitions"] for row in told["members"]],
    ) == (
        "simple",
        "share",
        [[f"{topic}-0"]],
    )
    assert [(row["start"], row["lag"], row["client"]) for row in told["offsets"]] == [
        (None, None, "wire")
    ]
    assert tidelog("groups", "describe", name).output.splitlines()[1].split() == [
        "TOPIC",
        "PARTITION",
        "START",
        "END",
        "LAG",
        "CLIENT",
    ]
    assert tidelog("groups", "describe", "--state", name).output.splitlines()[-1].split()[-2:] == [
        "1",
        "-",
    ], "it has not begun"
    busy = tidelog("groups", "reset", name, "--topic", topic, "--to-offset", "0", "--execute")
    assert busy.exit_code == 1
    assert "it has members" in busy.errors
    member.beat(-1)
    assert (
        "nothing was changed"
        in tidelog("groups", "reset", name, "--topic", topic, "--to-earliest").errors
    )
    assert (
        as_json(
            tidelog(
                "groups", "reset", name, "--topic", topic, "--to-earliest", "--execute", "--json"
            )
        )[0]["new"]
        == 0
    )
    (row,) = as_json(tidelog("groups", "describe", name, "--json"))["offsets"]
    assert (row["start"], row["end"], row["lag"]) == (0, 0, 0)
    assert tidelog("groups", "delete-offsets", name, "--topic", f"{topic}:0", "-y").exit_code == 2
    assert (
        tidelog("groups", "delete-offsets", name, "--topic", topic, "-y").output
        == f"{name} has forgotten {topic}\n"
    )
    assert as_json(tidelog("groups", "describe", name, "--json"))["offsets"] == []
    assert tidelog("groups", "delete", name, "-y").output == f"deleted {name}\n"
    assert tidelog("groups", "describe", name).exit_code == 1
