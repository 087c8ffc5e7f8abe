"""Dagster's UI has passwords checked at one server.

It asks another only if that one does not respond.
"""

from typing import Any, Self

import pytest

from log_service.client import ErrorCode, KafkaError
from log_service.common.secrets import SecretText
from orchestration.installation.ui import users as ui_users
from orchestration.installation.ui.users import ANSWER_MS, ClusterUsers, UiRights

SERVERS = "a:1,b:1,c:1,d:1"
GONE = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "it is gone")
WRONG = KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the password is wrong")


class Servers:
    """Takes the place of ``BlockingAdmin``, and keeps who was asked."""

    def __init__(self, **errors: KafkaError) -> None:
        self.errors = errors
        self.asked: list[str] = []
        self.timeouts_ms: list[int] = []

    def __call__(self, servers: str, **settings: Any) -> Self:
        self.asked.append(servers)
        self.timeouts_ms.append(settings["default_api_timeout_ms"])
        self.wanted = servers.partition(":")[0]
        return self

    def __enter__(self) -> Self:
        if self.wanted in self.errors:
            raise self.errors[self.wanted]
        return self

    def __exit__(self, *_: object) -> None: ...

    def describe_configs(self, _: object) -> None: ...

    def alter_configs(self, _: object, *, is_validated_only: bool) -> None:
        assert is_validated_only


def asked(monkeypatch: pytest.MonkeyPatch, **errors: KafkaError) -> Servers:
    servers = Servers(**errors)
    monkeypatch.setattr(ui_users, "BlockingAdmin", servers)
    return servers


def rights(users: ClusterUsers) -> UiRights:
    return users.rights_of("ann", SecretText("word"))


def test_a_guess_is_one_guess_at_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of four servers tried the password at each of them."""
    servers = asked(monkeypatch, a=WRONG, b=WRONG, c=WRONG, d=WRONG)
    assert rights(ClusterUsers(servers=SERVERS, settings={})) is UiRights.UNKNOWN
    assert servers.asked == ["a:1"]


def test_another_server_is_asked_where_one_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = asked(monkeypatch, a=GONE, b=GONE)
    users = ClusterUsers(servers=SERVERS, settings={})
    assert rights(users) is UiRights.CHANGE
    assert servers.asked == ["a:1", "b:1", "c:1"]
    assert sum(servers.timeouts_ms) <= ANSWER_MS
    assert rights(users) is UiRights.CHANGE
    assert servers.asked[3:] == ["c:1"], "those that are gone come last"


def test_a_cluster_that_is_gone_says_so_and_all_servers_are_tried_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = asked(monkeypatch, a=GONE, b=GONE, c=GONE, d=GONE)
    users = ClusterUsers(servers=SERVERS, settings={})
    for _ in range(2):
        with pytest.raises(KafkaError, match="it is gone"):
            rights(users)
    assert servers.asked == ["a:1", "b:1", "c:1", "d:1", "a:1", "b:1"]
