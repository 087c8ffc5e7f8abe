"""Kafka's file of a plan: what is written can be read again, and every mistake is told by its
field.
"""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from log_service.cluster_plans.layout import BrokerLayout, ClusterLayout
from log_service.cluster_plans.plans import rebalance
from log_service.cluster_plans.reassignment_file import (
    PlanFile,
    PlanFileMistakes,
    plan_of,
    read,
    written,
    written_back,
)
from tests.unit.cluster_plans.layouts import broker, counted, layout, layouts, partition


@given(layouts())
def test_a_written_plan_is_read_back_as_the_same_moves(cluster: ClusterLayout) -> None:
    plan = rebalance(cluster)
    assert plan_of(read(written(plan), "plan.json"), cluster).moves == tuple(
        sorted(plan.moves, key=lambda move: move.where)
    )
    assert read(written_back(plan), "back.json").targets == {
        move.where: move.before for move in plan.moves
    }


def test_the_file_is_kafkas() -> None:
    plan = rebalance(counted(2, [[1, 2], [1, 2]]))
    assert json.loads(written(plan)) == {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [2, 1], "log_dirs": ["any", "any"]}
        ],
    }


CLUSTER = layout([broker(number) for number in (1, 2)], [partition("t", 0, [1])])


def entry(**fields: object) -> str:
    return json.dumps(
        {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]} | fields]}
    )


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "line 1, column 1: Expecting value"),
        ('{"version": 1,\n "partitions": [}', "line 2, column 17: Expecting value"),
        ("[" * 100_000, "its lists are nested too deeply"),
        ("[]", 'it is to be an object: {"version": 1, "partitions": [...]}'),
        ('{"version": 2, "partitions": []}', "version: 2 is not 1"),
        ('{"version": true, "partitions": []}', "version: true is not 1"),
        ('{"version": 1}', "partitions: the list of partitions is missing"),
        ('{"version": 1, "partitions": {}}', "partitions: {} is not a list"),
        (
            '{"version": 1, "partitions": [], "topics": []}',
            "topics: there is no such field; there are version, partitions",
        ),
        ('{"version": 1, "version": 1, "partitions": []}', "version: it is there twice"),
        (
            '{"version": 1, "partitions": [7]}',
            'partitions[0]: 7 is not {"topic": ..., "partition": ..., "replicas": [...]}',
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0}]}',
            "partitions[0].replicas: it is missing",
        ),
        (entry(topic=""), 'partitions[0].topic: "" is not a topic\'s name'),
        (entry(partition=-1), "partitions[0].partition: -1 is not a partition's number"),
        (entry(partition=True), "partitions[0].partition: true is not a partition's number"),
        (
            entry(replicas=[]),
            "partitions[0].replicas: [] is not a list of broker ids like [1, 2, 3]",
        ),
        (entry(replicas=[1, "2"]), 'partitions[0].replicas[1]: "2" is not a broker id'),
        (entry(replicas=[1, 2**31]), "partitions[0].replicas[1]: 2147483648 is not a broker id"),
        (entry(replicas=[1, 2, 1]), "partitions[0].replicas[2]: broker 1 is there twice"),
        (entry(log_dirs="any"), 'partitions[0].log_dirs: "any" is not a list'),
        (
            entry(log_dirs=["any", "any"]),
            "partitions[0].log_dirs: it names 2 directories for 1 replicas",
        ),
        (
            entry(log_dirs=["/data"]),
            'partitions[0].log_dirs[0]: "/data" is not "any": the broker chooses the directory',
        ),
        (
            entry(replica=[1]),
            "partitions[0].replica: there is no such field; there are topic, partition, replicas, log_dirs",
        ),
    ],
)
def test_a_mistake_is_told_by_its_field(text: str, mistake: str) -> None:
    with pytest.raises(PlanFileMistakes) as refused:
        plan_of(read(text, "plan.json"), CLUSTER)
    assert refused.value.mistakes == (mistake,)
    assert str(refused.value).startswith(
        "plan.json is not a plan that can be carried out; nothing was changed:\n  "
    )


def file_of(*entries: object, **fields: object) -> PlanFile:
    return read(json.dumps({"version": 1, "partitions": entries} | fields), "plan.json")


def wanted(topic: str, partition_id: int, *brokers: int) -> dict[str, object]:
    return {"topic": topic, "partition": partition_id, "replicas": brokers}


def test_a_partition_is_there_once_and_all_mistakes_are_told_up_to_a_bound() -> None:
    with pytest.raises(
        PlanFileMistakes, match=r"partitions\[1\]: t-0 is there already, in partitions\[0\]"
    ):
        plan_of(file_of(wanted("t", 0, 1), wanted("t", 0, 1)), CLUSTER)
    with pytest.raises(PlanFileMistakes, match="and 5 more") as refused:
        plan_of(file_of(*[None] * 55), CLUSTER)
    assert len(refused.value.mistakes) == 55


def test_what_the_cluster_does_not_have_is_told_by_its_field_too() -> None:
    brokers: list[BrokerLayout] = [broker(1), broker(2), broker(3, is_fenced=True)]
    cluster = layout(
        brokers,
        [
            partition("t", 0, [1]),
            partition("t", 1, [3], leader=-1),
            partition("t", 2, [3, 1], leader=1),
        ],
    )
    entries = [
        wanted("t", 0, 1, 9),
        wanted("t", 1, 1),
        wanted("t", 2, 3, 1),
        wanted("t", 5, 1),
        wanted("u", 0, 1),
        wanted("t", 3, 1),
    ]
    with pytest.raises(PlanFileMistakes) as refused:
        plan_of(file_of(*entries), cluster)
    assert refused.value.mistakes == (
        "partitions[0].replicas[1]: there is no broker 9; there are 1, 2, 3",
        "partitions[1]: t-1 has no leader, so nothing can be copied from it",
        "partitions[3].partition: t has 3 partitions, numbered from 0: there is no 5",
        "partitions[4].topic: there is no topic u",
        "partitions[5].partition: t has 3 partitions, numbered from 0: there is no 3",
    )
    with pytest.raises(
        PlanFileMistakes, match=r"partitions\[0\].replicas\[1\]: broker 3 is fenced"
    ):
        plan_of(file_of(wanted("t", 0, 1, 3)), cluster)


def test_mistakes_of_the_file_and_what_the_cluster_does_not_have_are_told_at_once_entry_by_entry() -> (
    None
):
    """The author of the file mends it once."""
    entries = [
        wanted("u", 0, 1),
        {"topic": "u", "partition": "0", "replicas": [7, "x"]},
        None,
        {"replicas": [8]},
    ]
    with pytest.raises(PlanFileMistakes) as refused:
        plan_of(file_of(*entries, version=3), CLUSTER)
    assert refused.value.mistakes == (
        "version: 3 is not 1",
        "partitions[0].topic: there is no topic u",
        'partitions[1].partition: "0" is not a partition\'s number',
        'partitions[1].replicas[1]: "x" is not a broker id',
        "partitions[1].topic: there is no topic u",
        "partitions[1].replicas[0]: there is no broker 7; there are 1, 2",
        'partitions[2]: null is not {"topic": ..., "partition": ..., "replicas": [...]}',
        "partitions[3].topic: it is missing",
        "partitions[3].partition: it is missing",
        "partitions[3].replicas[0]: there is no broker 8; there are 1, 2",
    )


def test_a_partition_that_moves_already_is_not_sent_elsewhere_by_a_file() -> None:
    """The file was made for replicas that are on their way.

    Its author has not seen the moves that it would stop halfway.
    """
    moving = replace(partition("t", 0, [1, 2]), adding=(2,))
    with pytest.raises(
        PlanFileMistakes,
        match=r"partitions\[0\]: t-0 is already on the way to other brokers; see: tidelog cluster watch",
    ):
        plan_of(file_of(wanted("t", 0, 1)), layout([broker(1), broker(2)], [moving]))


def test_a_file_that_puts_another_replica_first_has_it_elected() -> None:
    """The leader that stays behind it would go on leading.

    One that leaves is followed by the controller's own election.
    """
    cluster = layout(
        [broker(each) for each in (1, 2, 3)],
        [partition("t", number, [1, 2]) for number in range(4)],
    )
    told = file_of(
        wanted("t", 0, 2, 1), wanted("t", 1, 1, 3), wanted("t", 2, 2, 3), wanted("t", 3, 1, 2)
    )
    plan = plan_of(told, cluster)
    assert [move.where.partition for move in plan.moves] == [0, 1, 2]
    assert [where.partition for where in plan.elections] == [0]
