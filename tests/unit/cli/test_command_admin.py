"""The commands' admin gives up changes within seconds without a leader of the quorum.

It asks nothing else for that.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
import trio.testing

from log_service.cli.connection import PATIENCE_SECONDS, QUORUM_TIMEOUT_MS, CommandAdmin
from log_service.client.admin import cluster, topics
from log_service.client.admin.admin import Admin
from log_service.client.admin.values import QuorumDescription
from log_service.common.errors import ConfigError, ErrorCode, KafkaError


def described(leader_id: int) -> QuorumDescription:
    return QuorumDescription(
        leader_id=leader_id, leader_epoch=1, high_watermark=1, voters=(), observers=(), endpoints={}
    )


class Cluster:
    """This cluster notes requests and responds to them.

    ``quorum`` describes the quorum, and ``failure`` is the error of a change, which takes
    ``seconds``.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.quorum: QuorumDescription | KafkaError = described(1)
        self.seconds = 0.0
        self.failure: Exception | None = None

    async def create_topics(self, *_: Any, **__: Any) -> None:
        self.asked.append("create_topics")
        await trio.sleep(self.seconds)
        if self.failure is not None:
            raise self.failure

    async def describe_metadata_quorum(self, _: Any, timeout_ms: int) -> QuorumDescription:
        self.asked.append("describe_metadata_quorum")
        assert timeout_ms <= QUORUM_TIMEOUT_MS
        if isinstance(self.quorum, KafkaError):
            raise self.quorum
        return self.quorum


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(topics, "create_topics", found.create_topics)
    monkeypatch.setattr(cluster, "describe_metadata_quorum", found.describe_metadata_quorum)
    monkeypatch.setattr(Admin, "cluster", None)
    return found


def run(function: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
    return trio.run(function, *arguments, clock=trio.testing.MockClock(autojump_threshold=0))


@contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(
        KafkaError, match="the metadata quorum has no leader, so nothing can be changed"
    ) as error:
        yield
    assert error.value.code is ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize(
    "quorum", [KafkaError(ErrorCode.REQUEST_TIMED_OUT), described(-1)], ids=str
)
def test_a_change_is_given_up_where_the_quorum_has_no_leader(
    brokers: Cluster, quorum: QuorumDescription | KafkaError
) -> None:
    """A change is given up if the quorum has no leader.

    Brokers wait for a leader. A person would wait for twenty seconds and hear that there was no
    response.
    """
    brokers.quorum, brokers.seconds, admin = quorum, 20, CommandAdmin("127.0.0.1:1")
    with refused():
        run(admin.create_topics, [])
    assert brokers.asked == ["create_topics", "describe_metadata_quorum"]
    with refused():
        run(admin.describe_metadata_quorum)


def test_a_change_that_is_made_asks_nothing_of_the_quorum(brokers: Cluster) -> None:
    """A user who must not describe the cluster would be in the audit log with each command."""
    brokers.quorum = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    run(CommandAdmin("127.0.0.1:1").create_topics, [])
    assert brokers.asked == ["create_topics"]


@pytest.mark.parametrize(
    "quorum", [KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), described(1)], ids=str
)
def test_a_slow_change_goes_on_where_the_quorum_has_a_leader_or_does_not_tell(
    brokers: Cluster, quorum: QuorumDescription | KafkaError
) -> None:
    brokers.quorum, brokers.seconds = quorum, PATIENCE_SECONDS * 3
    run(CommandAdmin("127.0.0.1:1").create_topics, [])
    assert brokers.asked == ["create_topics", "describe_metadata_quorum"]


@pytest.mark.parametrize(
    "failure", [KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), ConfigError("no")], ids=str
)
def test_a_change_that_fails_says_why(brokers: Cluster, failure: Exception) -> None:
    brokers.failure = failure
    with pytest.raises(type(failure)) as error:
        run(CommandAdmin("127.0.0.1:1").create_topics, [])
    assert error.value is failure


def test_who_asks_for_the_quorum_hears_that_it_is_not_told(brokers: Cluster) -> None:
    brokers.quorum = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
        run(CommandAdmin("127.0.0.1:1").describe_metadata_quorum)
