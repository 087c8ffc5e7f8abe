"""Brokers take no new partitions while they are emptied, and are afterwards as they were; a cluster that cannot do that is told of."""

from types import SimpleNamespace
from typing import Any

import pytest

from log_service.client.admin.values import ConfigResource, ItemsFailed
from log_service.cluster_operations.cordoning import cordoned
from log_service.common.errors import ErrorCode, KafkaError


class Admin:
    """An admin of brokers 1 and 2. ``file`` is the value in their files, None where their version knows no such key."""

    def __init__(self, own: str | None = None, *, file: str | None = "", refusal: str = "") -> None:
        self.own: dict[str, str | None] = {"1": own, "2": own}
        self.file = file
        self.refusal = refusal
        self.serving = [1, 2]
        self.is_slow = False

    def describe_configs(self, resources: list[ConfigResource]) -> dict[ConfigResource, dict[str, Any]]:
        return {each: {} if self.file is None else {"cordoned.log.dirs": self._entry(self.own[each.name])} for each in resources}

    def _entry(self, own: str | None) -> SimpleNamespace:
        if own is None:
            return SimpleNamespace(value=self.file, source="STATIC_BROKER_CONFIG" if self.file else "DEFAULT_CONFIG")
        return SimpleNamespace(value=own, source="DYNAMIC_BROKER_CONFIG")

    def alter_configs(self, changes: dict[ConfigResource, dict[str, str | None]]) -> None:
        if self.refusal:
            raise ItemsFailed(dict.fromkeys(changes, KafkaError(ErrorCode.INVALID_CONFIG, self.refusal)), {})
        for resource, values in changes.items():
            self.own[resource.name] = values["cordoned.log.dirs"]
        if self.is_slow:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no response")

    def describe_cluster(self) -> SimpleNamespace:
        return SimpleNamespace(nodes=[SimpleNamespace(node_id=each) for each in self.serving])


@pytest.mark.parametrize(
    ("own", "file", "meanwhile"),
    [(None, "", "*"), (None, "/a", "*"), ("/a,/b", "", "*"), ("", "/a", "*"), ("*", "", "*"), (None, "*", None)],
)
def test_a_broker_is_afterwards_as_it_was(own: str | None, file: str, meanwhile: str | None) -> None:
    said: list[str] = []
    admin: Any = Admin(own, file=file)
    with cordoned(admin, [2], said.append):
        assert admin.own == {"1": own, "2": meanwhile}
    assert (admin.own, said) == ({"1": own, "2": own}, [])


def test_a_broker_whose_response_did_not_come_is_not_left_cordoned() -> None:
    said: list[str] = []
    admin: Any = Admin()
    admin.is_slow = True
    with cordoned(admin, [2], said.append):
        assert admin.own == {"1": None, "2": "*"}
        admin.is_slow = False
    assert admin.own == {"1": None, "2": None}
    assert said == ["topics that are created meanwhile may be placed on broker 2: no response"]


def test_an_interrupt_leaves_no_broker_cordoned() -> None:
    admin: Any = Admin()
    meanwhile = {}

    def empty() -> None:
        with cordoned(admin, [1, 2], print):
            meanwhile.update(admin.own)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        empty()
    assert meanwhile == {"1": "*", "2": "*"}
    assert admin.own == {"1": None, "2": None}


@pytest.mark.parametrize(
    ("how", "why"),
    [({"refusal": "metadata version 29 is too low"}, "metadata version 29 is too low"), ({"file": None}, "its version cannot be told")],
    ids=["refused", "unknown"],
)
def test_where_the_cluster_cannot_cordon_it_says_so_and_goes_on(how: dict[str, Any], why: str) -> None:
    said: list[str] = []
    admin: Any = Admin(**how)
    with cordoned(admin, [2], said.append):
        said.append("emptied")
    assert (len(said), said[1]) == (2, "emptied")
    assert said[0].startswith(f"topics that are created meanwhile may be placed on broker 2: {why}")
    assert admin.own == {"1": None, "2": None}


@pytest.mark.parametrize(("own", "undo"), [(None, "unset cordoned.log.dirs"), ("/a", "set 'cordoned.log.dirs=/a'")])
def test_a_broker_that_cannot_be_told_is_named_with_the_command_for_it(own: str | None, undo: str) -> None:
    said: list[str] = []
    admin: Any = Admin(own)
    with cordoned(admin, [1, 2], said.append):
        admin.serving = [1]
    assert admin.own == {"1": own, "2": "*"}
    assert said == [f"broker 2 still takes no new partitions: it is down; to end that: tidelog configs {undo} --broker 2"]
    del said[:]
    with cordoned(admin, [1], said.append):
        admin.refusal = "not now"
    assert said == [f"broker 1 still takes no new partitions: not now; to end that: tidelog configs {undo} --broker 1"]


def test_a_broker_that_is_forgotten_is_not_looked_for() -> None:
    said: list[str] = []
    admin: Any = Admin()
    with cordoned(admin, [2], said.append) as cordon:
        admin.serving = [1]
        cordon.forgotten(2)
    assert said == []
