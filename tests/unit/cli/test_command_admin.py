"""What the commands' admin refuses within seconds: changes while the metadata quorum has no leader."""

from collections.abc import Callable
from typing import Any

import pytest

from log_service.cli.connection import QUORUM_TIMEOUT_MS, CommandAdmin
from log_service.client.admin.values import QuorumDescription
from log_service.common.errors import ErrorCode, KafkaError


def described(leader_id: int) -> QuorumDescription:
    return QuorumDescription(leader_id=leader_id, leader_epoch=1, high_watermark=1, voters=(), observers=(), endpoints={})


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Callable[[QuorumDescription | KafkaError], tuple[CommandAdmin, list[str]]]:
    """Return an admin of a quorum that says this of itself, and what is asked of the cluster."""

    def made(quorum: QuorumDescription | KafkaError) -> tuple[CommandAdmin, list[str]]:
        asked: list[str] = []

        def call(opened: CommandAdmin, function: Any) -> Any:
            asked.append(function.func.__name__)
            if asked[-1] != "describe_metadata_quorum":
                return None
            assert function.keywords["timeout_ms"] <= QUORUM_TIMEOUT_MS
            if isinstance(quorum, KafkaError):
                raise quorum
            return quorum

        opened = CommandAdmin("127.0.0.1:1")
        monkeypatch.setattr(type(opened._portal), "call", call)
        return opened, asked

    return made


@pytest.mark.parametrize("quorum", [KafkaError(ErrorCode.REQUEST_TIMED_OUT), described(-1)], ids=str)
def test_a_change_is_refused_where_the_quorum_has_no_leader(admin: Any, quorum: QuorumDescription | KafkaError) -> None:
    """Brokers wait for a leader, and would let a person wait for twenty seconds and say that there was no response."""
    opened, asked = admin(quorum)
    for change in (lambda: opened.create_topics([]), lambda: opened.alter_configs({}), opened.describe_metadata_quorum):
        with pytest.raises(KafkaError, match="the metadata quorum has no leader, so nothing can be changed") as refused:
            change()
        assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert asked == ["describe_metadata_quorum"] * 3


def test_the_quorum_is_looked_at_once(admin: Any) -> None:
    opened, asked = admin(described(1))
    opened.create_topics([])
    opened.alter_configs({})
    assert asked == ["describe_metadata_quorum", "create_topics", "alter_configs"]


def test_a_quorum_that_is_not_told_to_this_user_keeps_nobody_from_changes(admin: Any) -> None:
    opened, asked = admin(KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    opened.create_topics([])
    assert asked == ["describe_metadata_quorum", "create_topics"]
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
        opened.describe_metadata_quorum()
