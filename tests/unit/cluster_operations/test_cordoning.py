"""Brokers take no new partitions while they are emptied, and are afterwards as before.

The command says so if the cluster cannot do that.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from log_service.client.admin.values import ConfigResource, ItemsFailed
from log_service.cluster_operations.cordoning import Cordon, cordoned
from log_service.common.errors import ErrorCode, KafkaError


class Admin:
    """An admin of brokers 1 and 2. ``file`` is the value in their files, None where their version
    knows no such key.
    """

    def __init__(self, own: str | None = None, *, file: str | None = "", refusal: str = "") -> None:
        self.own: dict[str, str | None] = {"1": own, "2": own}
        self.file = file
        self.refusal = refusal
        self.serving = [1, 2]
        self.is_slow = False

    async def describe_configs(
        self, resources: list[ConfigResource]
    ) -> dict[ConfigResource, dict[str, Any]]:
        return {
            each: {}
            if self.file is None
            else {"cordoned.log.dirs": self._entry(self.own[each.name])}
            for each in resources
        }

    def _entry(self, own: str | None) -> SimpleNamespace:
        if own is None:
            return SimpleNamespace(
                value=self.file, source="STATIC_BROKER_CONFIG" if self.file else "DEFAULT_CONFIG"
            )
        return SimpleNamespace(value=own, source="DYNAMIC_BROKER_CONFIG")

    async def alter_configs(self, changes: dict[ConfigResource, dict[str, str | None]]) -> None:
        await trio.lowlevel.checkpoint()
        if self.refusal:
            raise ItemsFailed(
                dict.fromkeys(changes, KafkaError(ErrorCode.INVALID_CONFIG, self.refusal)), {}
            )
        for resource, values in changes.items():
            self.own[resource.name] = values["cordoned.log.dirs"]
        if self.is_slow:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no response")

    async def describe_cluster(self) -> SimpleNamespace:
        return SimpleNamespace(nodes=[SimpleNamespace(node_id=each) for each in self.serving])


@asynccontextmanager
async def emptied(
    admin: Any, broker_ids: Iterable[int], say: Callable[[str], object]
) -> AsyncIterator[Cordon]:
    async with cordoned(admin, say) as cordon:
        for broker_id in broker_ids:
            await cordon.begin(admin, broker_id)
        yield cordon


@pytest.mark.parametrize(
    ("own", "file", "meanwhile"),
    [
        (None, "", "*"),
        (None, "/a", "*"),
        ("/a,/b", "", "*"),
        ("", "/a", "*"),
        ("*", "", "*"),
        (None, "*", None),
    ],
)
def test_a_broker_is_afterwards_as_it_was(
    own: str | None, file: str, meanwhile: str | None
) -> None:
    said: list[str] = []
    admin: Any = Admin(own, file=file)

    async def empty() -> None:
        async with emptied(admin, [2], said.append):
            assert admin.own == {"1": own, "2": meanwhile}

    trio.run(empty)
    assert (admin.own, said) == ({"1": own, "2": own}, [])


def test_a_broker_whose_response_did_not_come_is_not_left_cordoned() -> None:
    said: list[str] = []
    admin: Any = Admin()
    admin.is_slow = True

    async def empty() -> None:
        async with emptied(admin, [2], said.append):
            assert admin.own == {"1": None, "2": "*"}
            admin.is_slow = False

    trio.run(empty)
    assert admin.own == {"1": None, "2": None}
    assert said == ["topics that are created meanwhile may be placed on broker 2: no response"]


def test_an_interrupt_leaves_no_broker_cordoned() -> None:
    admin: Any = Admin()
    meanwhile = {}

    async def empty() -> None:
        async with emptied(admin, [1, 2], print):
            meanwhile.update(admin.own)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trio.run(empty)
    assert meanwhile == {"1": "*", "2": "*"}
    assert admin.own == {"1": None, "2": None}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"refusal": "metadata version 29 is too low"}, "metadata version 29 is too low"),
        ({"file": None}, "its version cannot be told"),
    ],
    ids=["refused", "unknown"],
)
def test_where_the_cluster_cannot_cordon_it_says_so_and_goes_on(
    how: dict[str, Any], why: str
) -> None:
    said: list[str] = []
    admin: Any = Admin(**how)

    async def empty() -> None:
        async with emptied(admin, [2], said.append):
            said.append("emptied")

    trio.run(empty)
    assert (len(said), said[1]) == (2, "emptied")
    assert said[0].startswith(f"topics that are created meanwhile may be placed on broker 2: {why}")
    assert admin.own == {"1": None, "2": None}


@pytest.mark.parametrize(
    ("own", "undo"), [(None, "unset cordoned.log.dirs"), ("/a", "set 'cordoned.log.dirs=/a'")]
)
def test_a_broker_that_cannot_be_told_is_named_with_the_command_for_it(
    own: str | None, undo: str
) -> None:
    said: list[str] = []
    admin: Any = Admin(own)

    async def empty() -> None:
        async with emptied(admin, [1, 2], said.append):
            admin.serving = [1]

    trio.run(empty)
    assert admin.own == {"1": own, "2": "*"}
    assert said == [
        f"broker 2 still takes no new partitions: it is down; to end that: tidelog configs {undo} --broker 2"
    ]
    del said[:]

    async def empty_another() -> None:
        async with emptied(admin, [1], said.append):
            admin.refusal = "not now"

    trio.run(empty_another)
    assert said == [
        f"broker 1 still takes no new partitions: not now; to end that: tidelog configs {undo} --broker 1"
    ]


def test_a_broker_that_is_forgotten_is_not_looked_for() -> None:
    said: list[str] = []
    admin: Any = Admin()

    async def empty() -> None:
        async with emptied(admin, [2], said.append) as cordon:
            admin.serving = [1]
            cordon.forgotten(2)

    trio.run(empty)
    assert said == []


def test_a_cancelled_block_leaves_no_broker_cordoned() -> None:
    """The cordon is taken back although the task is cancelled."""
    admin: Any = Admin()

    async def empty() -> None:
        with trio.CancelScope() as scope:
            async with emptied(admin, [2], print):
                assert admin.own["2"] == "*"
                scope.cancel()
                await trio.sleep_forever()

    trio.run(empty)
    assert admin.own == {"1": None, "2": None}
