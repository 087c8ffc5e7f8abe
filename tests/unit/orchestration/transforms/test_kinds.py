"""A table that cannot be replayed says so, and gives advice."""

from collections.abc import Iterator

import pytest

from orchestration.topics.spec import (
    TopicSpec,
    declare_topic,
    declared_topic,
    declared_topics,
    forget_declared_topics,
)
from orchestration.transforms.kinds import declare_of_topics, why_no_replay


@pytest.fixture(autouse=True)
def only_topics_of_the_test() -> Iterator[None]:
    before = [declared_topic(name) for name in declared_topics()]
    forget_declared_topics()
    yield
    forget_declared_topics()
    for spec in before:
        declare_topic(spec)


def test_an_archive_says_that_there_is_no_replay_into_it() -> None:
    declare_topic(TopicSpec(name="eu.orders", archive=True))
    declare_topic(TopicSpec(name="plain"))
    declare_of_topics()
    told = why_no_replay("eu_orders_archive")
    assert told is not None
    assert told.startswith("eu_orders_archive is the archive of the topic eu.orders")
    assert why_no_replay("plain_archive") is None
