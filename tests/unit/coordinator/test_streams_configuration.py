"""Partition counts follow from a topology.

They come from upstream topics, from joined ones, and from the application.
"""

from typing import Any

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group.streams.configuration import (
    ConfiguredTopology,
    StreamsStatus,
    configured,
)
from log_service.coordinator.group.values.streams_topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
    validate_topology,
)

PARTITIONED = StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS


def internal(name: str, partitions: int = 0) -> InternalTopic:
    return InternalTopic(name=name, partitions=partitions)


def run(topics: dict[str, int], *subtopologies: dict[str, Any]) -> ConfiguredTopology:
    topology = Topology(
        epoch=0,
        subtopologies=tuple(
            Subtopology(subtopology_id=str(at), **each) for at, each in enumerate(subtopologies)
        ),
    )
    validate_topology(topology)
    return configured(topology, topics.get)


def missing(result: ConfiguredTopology) -> dict[str, int]:
    return {each.name: each.partitions for each in result.missing_topics}


def test_internal_topics_get_the_count_of_the_largest_input_upstream() -> None:
    result = run(
        {"a": 2, "b": 5},
        {"source_topics": ("a", "b"), "repartition_sink_topics": ("r",)},
        {"repartition_source_topics": (internal("r"),), "state_changelog_topics": (internal("c"),)},
    )
    assert missing(result) == {"r": 5, "c": 5}
    assert result.subtopologies is not None
    assert {each: found.task_count for each, found in result.subtopologies.items()} == {
        "0": 5,
        "1": 5,
    }
    assert result.problem is not None
    assert result.problem.status is StreamsStatus.MISSING_INTERNAL_TOPICS
    ready = run(
        {"a": 2, "b": 5, "r": 5, "c": 5},
        {"source_topics": ("a", "b"), "repartition_sink_topics": ("r",)},
        {"repartition_source_topics": (internal("r"),), "state_changelog_topics": (internal("c"),)},
    )
    assert ready.is_ready
    assert not ready.missing_topics


def test_a_chain_is_followed_however_it_is_ordered() -> None:
    """Whatever comes first: what is read is known before what is written."""
    chain = [
        {
            "repartition_source_topics": (internal(f"r{at}"),),
            "repartition_sink_topics": (f"r{at + 1}",),
        }
        for at in range(40, 0, -1)
    ]
    result = run(
        {"a": 3},
        *chain,
        {"repartition_source_topics": (internal("r41"),)},
        {"source_topics": ("a",), "repartition_sink_topics": ("r1",)},
    )
    assert set(missing(result).values()) == {3}
    assert len(missing(result)) == 41


def test_a_count_that_the_application_fixes_holds() -> None:
    result = run(
        {"a": 2},
        {"source_topics": ("a",), "repartition_sink_topics": ("r",)},
        {
            "repartition_source_topics": (internal("r", 7),),
            "state_changelog_topics": (internal("c"),),
        },
    )
    assert missing(result) == {"r": 7, "c": 7}


def joined(*sources: str, repartitioned: tuple[InternalTopic, ...] = ()) -> dict[str, Any]:
    group = CopartitionGroup(
        source_topics=tuple(range(len(sources))),
        repartition_source_topics=tuple(range(len(repartitioned))),
    )
    return {
        "source_topics": sources,
        "repartition_source_topics": repartitioned,
        "copartition_groups": (group,),
    }


def test_a_repartition_topic_is_adapted_to_the_topic_that_it_is_joined_with() -> None:
    result = run(
        {"a": 2, "b": 6},
        {"source_topics": ("a",), "repartition_sink_topics": ("r",)},
        joined("b", repartitioned=(internal("r"),)),
    )
    assert missing(result) == {"r": 6}


def test_repartition_topics_that_are_joined_get_the_larger_count() -> None:
    result = run(
        {"a": 2, "b": 6},
        {"source_topics": ("a",), "repartition_sink_topics": ("r",)},
        {"source_topics": ("b",), "repartition_sink_topics": ("s",)},
        joined(repartitioned=(internal("r"), internal("s"))),
    )
    assert missing(result) == {"r": 6, "s": 6}


@pytest.mark.parametrize(
    ("topics", "subtopologies", "detail"),
    [
        (
            {"a": 2, "b": 3},
            (joined("a", "b"),),
            "Following topics do not have the same number of partitions: [{a=2, b=3}]",
        ),
        (
            {"a": 2},
            (
                {"source_topics": ("a",), "repartition_sink_topics": ("r",)},
                joined("a", repartitioned=(internal("r", 3),)),
            ),
            "Number of partitions [3] of repartition topic [r] doesn't match number of partitions [2] of the source topic.",
        ),
        (
            {"a": 2},
            (
                {"source_topics": ("a",), "repartition_sink_topics": ("r", "s")},
                joined(repartitioned=(internal("r", 3), internal("s", 4))),
            ),
            "Following topics do not have the same number of partitions: [{r=3, s=4}]",
        ),
        (
            {"a": 2, "c": 5},
            ({"source_topics": ("a",), "state_changelog_topics": (internal("c"),)},),
            "Existing topic c has different number of partitions: expected 2, found 5",
        ),
    ],
)
def test_counts_that_do_not_fit_are_told(
    topics: dict[str, int], subtopologies: tuple[dict[str, Any], ...], detail: str
) -> None:
    result = run(topics, *subtopologies)
    assert result.problem is not None
    assert (result.problem.status, result.problem.detail) == (PARTITIONED, detail)
    assert result.subtopologies is None
    assert not result.missing_topics


def test_many_missing_topics_are_counted() -> None:
    result = run({}, {"source_topics": tuple("edcba")})
    assert result.problem is not None
    assert result.problem.detail == "Source topics a, b, c and 2 additional topics are missing."


@pytest.mark.parametrize(
    "subtopologies",
    [
        ({"repartition_source_topics": (internal("r"),), "repartition_sink_topics": ("r",)},),
        ({"source_topics": ("a",), "repartition_source_topics": (internal("r"),)},),
        ({"state_changelog_topics": (internal("c"),)},),
        ({},),
    ],
)
def test_what_no_topics_could_solve_is_refused(subtopologies: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(KafkaError) as refused:
        run({"a": 1}, *subtopologies)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_long_chain_in_the_worst_order_costs_no_more_than_its_length() -> None:
    """A record holds a topology of many thousand subtopologies.

    No client may make a broker look at it again and again.
    """
    looked: list[str] = []

    def count(name: str) -> int | None:
        looked.append(name)
        return 3 if name == "a" else None

    length = 3_000
    subtopologies = [
        Subtopology(
            subtopology_id=f"{at}",
            repartition_source_topics=(internal(f"r{at}"),),
            repartition_sink_topics=(f"r{at + 1}",),
        )
        for at in range(length)
    ]
    subtopologies.append(
        Subtopology(subtopology_id="first", source_topics=("a",), repartition_sink_topics=("r0",))
    )
    subtopologies.append(
        Subtopology(subtopology_id="last", repartition_source_topics=(internal(f"r{length}"),))
    )
    result = configured(Topology(epoch=0, subtopologies=tuple(subtopologies)), count)
    assert len(result.missing_topics) == length + 1
    assert len(looked) < 10 * length
