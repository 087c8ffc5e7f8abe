"""Logins of Dagster's UI: how many are tried at once, and what is counted when they end."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import ClassVar

from log_service.client import ErrorCode, KafkaError
from log_service.common.guesses import FREE_GUESSES
from log_service.common.secrets import SecretText
from orchestration.installation.ui.sessions import (
    MAX_LOGINS_OF_ADDRESS,
    BusyError,
    Sessions,
    UnreachableError,
)
from orchestration.installation.ui.users import ClusterUsers, UiRights

RIGHT, WRONG = SecretText("right"), SecretText("wrong")
HERE, THERE = "192.0.2.7", "192.0.2.8"


class Users(ClusterUsers):
    """Users with one password, at a cluster that may be gone."""

    asked: ClassVar = Counter[str]()
    is_gone: ClassVar = False

    def rights_of(self, user: str, password: SecretText) -> UiRights:
        self.asked[user] += 1
        if self.is_gone:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "gone")
        return UiRights.READ if password.reveal() == "right" else UiRights.UNKNOWN


class Story:
    """Sessions whose waits pass at once or, while ``is_held``, not at all."""

    def __init__(self) -> None:
        self.users = Users(servers="", settings={})
        Users.asked.clear()
        Users.is_gone = False
        self.waited_s: list[float] = []
        self.is_held = False
        self._released = asyncio.Event()
        self.sessions = Sessions(self.users, lambda: 0.0, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.waited_s.append(seconds)
        if self.is_held:
            await self._released.wait()

    def release(self) -> None:
        self.is_held = False
        self._released.set()

    async def log_in(
        self, password: SecretText = WRONG, address: str = HERE, user: str = "ann"
    ) -> str:
        try:
            _, rights = await self.sessions.log_in(user, password, address)
        except BusyError:
            return "busy"
        except UnreachableError:
            return "unreachable"
        return rights.value


def tell(story: Callable[[Story], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Story())

    asyncio.run(main())


def test_a_burst_on_one_user_waits_in_turns() -> None:
    """None of 64 waited: a wrong password counted only once the cluster had judged it."""

    async def story(node: Story) -> None:
        node.is_held = True
        attempts = [asyncio.create_task(node.log_in()) for _ in range(64)]
        await asyncio.sleep(0)
        turns_s = [0.2, 0.6, 1.4, 3.0, 6.2]
        assert node.waited_s == turns_s
        while len(node.waited_s) < FREE_GUESSES + len(turns_s):  # noqa: ASYNC110 - threads ask
            await asyncio.sleep(0)
        node.release()
        came = Counter(await asyncio.gather(*attempts))
        served_count = FREE_GUESSES + len(turns_s)
        assert came == {"unknown": served_count, "busy": 64 - served_count}
        assert node.users.asked["ann"] == served_count

    tell(story)


def test_others_wait_for_nothing() -> None:
    async def story(node: Story) -> None:
        for _ in range(20):
            await node.log_in()
        node.waited_s.clear()
        assert await node.log_in(RIGHT, THERE) == "read"
        assert await node.log_in(RIGHT, user="bob") == "read"
        assert node.waited_s == []

    tell(story)


def test_one_stranger_behind_a_proxy_keeps_nobody_out() -> None:
    """Eight guesses that waited for their turn were all that an address could have under way."""

    async def story(node: Story) -> None:
        for _ in range(FREE_GUESSES):
            await node.log_in()
        node.is_held = True
        guesses = [asyncio.create_task(node.log_in(user="ann")) for _ in range(20)]
        refused = [asyncio.create_task(node.log_in(user=f"user-{n}")) for n in range(4)]
        await asyncio.sleep(0)
        while sum(node.users.asked.values()) < FREE_GUESSES + len(refused):  # noqa: ASYNC110 - threads ask
            await asyncio.sleep(0)
        assert await node.log_in(RIGHT, user="bob") == "read"
        node.release()
        await asyncio.gather(*guesses, *refused)

    tell(story)


def test_a_cluster_that_is_gone_costs_no_guess() -> None:
    async def story(node: Story) -> None:
        Users.is_gone = True
        for _ in range(20):
            assert await node.log_in(RIGHT) == "unreachable"
        Users.is_gone = False
        assert await node.log_in(RIGHT) == "read"
        assert node.waited_s == []

    tell(story)


def test_one_who_leaves_while_waiting_counts_no_more() -> None:
    async def story(node: Story) -> None:
        node.is_held = True
        attempts = [asyncio.create_task(node.log_in()) for _ in range(MAX_LOGINS_OF_ADDRESS)]
        await asyncio.sleep(0)
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        node.release()
        node.waited_s.clear()
        assert await node.log_in(RIGHT) == "read"
        assert node.waited_s == []

    tell(story)
