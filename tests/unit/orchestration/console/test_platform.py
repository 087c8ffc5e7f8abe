"""Requests for facts of the project share one answer, and none ends what others wait for."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from log_service.http.server.values import HttpError
from orchestration.console.platform import Platform


class Facts:
    """A process that starts slowly. It counts its requests."""

    def __init__(self) -> None:
        self.count = 0
        self.may_go_on = trio.Event()
        self.refusal: HttpError | None = None

    async def ask(self, _nursery: trio.Nursery, _method: str, *, user: str) -> int:
        assert user == "ann"
        self.count += 1
        await self.may_go_on.wait()
        if self.refusal is not None:
            raise self.refusal
        return self.count


async def with_platform(story: Callable[..., Any]) -> None:
    platform, clock = Platform(Path()), SimpleNamespace(monotonic_ms=lambda: 1_000)
    platform.missing = ""
    facts: Any = Facts()
    platform.facts = facts
    async with trio.open_nursery() as nursery:
        context = SimpleNamespace(nursery=nursery, env=SimpleNamespace(clock=clock))
        person = SimpleNamespace(user="ann")
        await story(platform, facts, SimpleNamespace(context=context, person=person))


def test_a_request_that_is_given_up_does_not_end_the_start() -> None:
    async def story(platform: Platform, facts: Facts, visit: Any) -> None:
        with trio.move_on_after(0):
            await platform.ask(visit, "tables")
        found: list[int] = []

        async def ask() -> None:
            found.append(await platform.ask(visit, "tables"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            facts.may_go_on.set()
        assert (found, facts.count) == ([1, 1], 1)
        assert await platform.ask(visit, "tables") == 1, "it is remembered"

    trio.run(with_platform, story)


def test_a_refusal_reaches_everybody_who_waits_and_is_not_remembered() -> None:
    async def story(platform: Platform, facts: Facts, visit: Any) -> None:
        facts.refusal = HttpError(400, "the project cannot be loaded")
        facts.may_go_on.set()
        with pytest.raises(HttpError, match="cannot be loaded"):
            await platform.ask(visit, "tables")
        facts.refusal = None
        assert await platform.ask(visit, "tables") == 2

    trio.run(with_platform, story)


def test_an_answer_from_before_a_change_is_not_remembered() -> None:
    async def story(platform: Platform, facts: Facts, visit: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(platform.ask, visit, "tables")
            await trio.testing.wait_all_tasks_blocked()
            platform.forget()
            facts.may_go_on.set()
        assert await platform.ask(visit, "tables") == 2

    trio.run(with_platform, story)
