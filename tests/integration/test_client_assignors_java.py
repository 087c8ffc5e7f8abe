"""Our assignors decide as those of Kafka's own client, on generated groups.

Members have racks or none, and pasts and wishes of their own.

Needs Java and a folder with Apache Kafka's jars in ``TIDELOG_KAFKA_LIBS``; without them the tests
skip and say so. ``AssignorJudge.java`` gets what the coordinator would give to a leader:
subscriptions as our members encode them, and the racks of replicas.
"""

import json
import random
import subprocess
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from log_service.client.consumer.assignors import ASSIGNORS, Assignment, Member, is_rack_sensitive
from log_service.client.group_protocol import (
    decode_subscription,
    encode_subscription,
    subscription_for,
    with_previous_assignment,
)
from log_service.common.types import TopicPartition
from tests.integration.kafka_node import java_command, skip_unless_kafka_is_there

JUDGE = Path(__file__).with_name("AssignorJudge.java")
GROUP_COUNT = 600
GENERATION = 5
RACKS = "wxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A generated group and its past.

    ``racks[topic][number]`` are the racks of a partition's replicas, and ``owners`` the former
    owners, some of which have left.
    """

    racks: dict[str, list[list[str]]]
    topics: dict[str, list[str]]
    instances: dict[str, str]
    rack_of: dict[str, str]
    owners: dict[TopicPartition, str]

    def encoded(self, assignor: str) -> dict[str, bytes]:
        """The members' subscriptions, by member."""
        return {
            member_id: encode_subscription(
                subscription_for(
                    assignor,
                    sorted(topics),
                    self.owned_by(member_id),
                    GENERATION,
                    self.rack_of[member_id],
                )
            )
            for member_id, topics in self.topics.items()
        }

    def owned_by(self, member_id: str) -> list[TopicPartition]:
        return [partition for partition, owner in self.owners.items() if owner == member_id]

    def assigned_by_us(self, assignor: str) -> Assignment:
        members = [
            Member(
                member_id=member_id,
                group_instance_id=self.instances.get(member_id),
                subscription=with_previous_assignment(assignor, decode_subscription(encoded)),
            )
            for member_id, encoded in self.encoded(assignor).items()
        ]
        racks = {
            TopicPartition(topic, number): frozenset(found)
            for topic, each in self.racks.items()
            for number, found in enumerate(each)
        }
        return ASSIGNORS[assignor].assign(
            members, {topic: len(each) for topic, each in self.racks.items()}, racks
        )

    def badness(self, assignment: Assignment) -> tuple[int, int, int]:
        """Return how unequal loads are, how many partitions are read from another rack, and how
        many moved.

        Less is better, in this order.
        """
        placed = [
            (member_id, partition) for member_id, owned in assignment.items() for partition in owned
        ]
        found = [frozenset(racks) for each in self.racks.values() for racks in each]
        is_sensitive = is_rack_sensitive(self.rack_of.values(), found)
        far = [
            each
            for member_id, each in placed
            if self.rack_of[member_id] not in self.racks[each.topic][each.partition]
        ]
        moved = [
            each for member_id, each in placed if self.owners.get(each, member_id) != member_id
        ]
        return (
            sum(len(owned) ** 2 for owned in assignment.values()),
            len(far) if is_sensitive else 0,
            len(moved),
        )


def some_group(rng: random.Random) -> Group:
    racks = RACKS[: rng.randint(1, 4)]
    sizes = [rng.randint(1, rng.choice([3, 8, 12])) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.4:
        sizes = [sizes[0] for _ in sizes]
    most = min(len(racks), rng.choice([1, 1, 2, 3]))
    described = {
        topic: [
            sorted(rng.sample(racks, rng.randint(rng.random() > 0.1, most))) for _ in range(size)
        ]
        for topic, size in zip("tuv", sizes, strict=False)
    }
    if rng.random() < 0.3:
        described = dict.fromkeys(described, described["t"])
    member_ids = [f"m{index}" for index in range(rng.randint(1, 7))]
    is_alike, kept_share = rng.random() < 0.6, rng.choice([0, 0.8, 1])
    tells_rack = rng.choice([1, 1, 0.8, 0.5, 0])
    everything = [
        TopicPartition(topic, number)
        for topic, each in described.items()
        for number in range(len(each))
    ]
    return Group(
        racks=described,
        topics={
            each: list(described)
            if is_alike
            else rng.sample(list(described), rng.randint(1, len(described)))
            for each in member_ids
        },
        instances={
            each: f"s{rng.randint(0, 99)}-{each}" for each in member_ids if rng.random() < 0.1
        },
        rack_of={
            each: rng.choice(racks) if rng.random() < tells_rack else "" for each in member_ids
        },
        owners={
            each: rng.choice([*member_ids, "who left"])
            for each in everything
            if rng.random() < kept_share
        },
    )


def judged(groups: list[Group], assignor: str) -> list[Assignment]:
    """Return what Java's assignor of that name says to each group."""
    skip_unless_kafka_is_there()
    command = [*java_command("-Xmx256m"), str(JUDGE)]
    questions = "".join(f"{json.dumps(question(group, assignor))}\n" for group in groups)
    answered = subprocess.run(
        command, input=questions, capture_output=True, text=True, timeout=120, check=False
    )
    assert answered.returncode == 0, answered.stderr
    answers: list[dict[str, Any]] = [json.loads(line) for line in answered.stdout.splitlines()]
    return [
        {
            member_id: [TopicPartition(*each) for each in owned]
            for member_id, owned in answer.items()
        }
        for answer in answers
    ]


def question(group: Group, assignor: str) -> dict[str, Any]:
    members = [
        {
            "id": member_id,
            "instance": group.instances.get(member_id),
            "subscription": b64encode(encoded).decode(),
        }
        for member_id, encoded in group.encoded(assignor).items()
    ]
    return {"assignor": assignor, "racks": group.racks, "members": members}


def some_groups(seed: int) -> list[Group]:
    rng = random.Random(seed)
    return [some_group(rng) for _ in range(GROUP_COUNT)]


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_what_depends_on_nothing_but_order_is_assigned_as_java_does(assignor: str) -> None:
    groups = some_groups(seed=1)
    for group, theirs in zip(groups, judged(groups, assignor), strict=True):
        ours = group.assigned_by_us(assignor)
        assert {each: sorted(owned) for each, owned in ours.items()} == {
            each: sorted(owned) for each, owned in theirs.items()
        }, group


def test_sticky_is_nowhere_less_equal_less_near_or_less_sticky_than_java() -> None:
    """In this order: racks come second and stickiness third there, too. Not a few groups must be
    better off, or nothing was looked at.
    """
    groups = some_groups(seed=2)
    better_count = 0
    for group, theirs in zip(groups, judged(groups, "sticky"), strict=True):
        ours = group.assigned_by_us("sticky")
        assert group.badness(ours) <= group.badness(theirs), group
        better_count += group.badness(ours) < group.badness(theirs)
    assert better_count > GROUP_COUNT / 20


def test_cooperative_sticky_gives_what_sticky_would_and_nobody_owns() -> None:
    """Java withholds by the same rule.

    A partition that moves goes to no member until its owner has heard of it.
    """
    groups = some_groups(seed=3)
    for group, theirs in zip(groups, judged(groups, "cooperative-sticky"), strict=True):
        ours, whole = group.assigned_by_us("cooperative-sticky"), group.assigned_by_us("sticky")
        given = [(member_id, each) for member_id, owned in theirs.items() for each in owned]
        assert all(
            group.owners.get(each, member_id) in {member_id, "who left"}
            for member_id, each in given
        ), group
        for member_id, owned in whole.items():
            kept = [
                each
                for each in owned
                if group.owners.get(each, member_id) in {member_id, "who left"}
            ]
            assert ours[member_id] == kept, group
