"""A download is complete, or breaks off."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from log_service.client.consumer.records import ConsumerRecord
from log_service.http.console.pages.records import handlers
from log_service.http.console.pages.records.reading import ENOUGH
from log_service.http.server.values import HttpError
from log_service.http.server.work_limits import WorkLimits


@asynccontextmanager
async def nothing(*_given: object, **_settings: object) -> AsyncIterator[None]:
    yield None


async def no_bounds(*_given: object) -> None:
    """The replaced reading needs none."""


async def no_admin() -> None:
    """The replaced bounds need none."""


@pytest.mark.parametrize(
    ("reason", "read_s"),
    [("", 0), (ENOUGH, 0), ("50000 records were looked at", 0), ("", 1 + handlers.MAX_DOWNLOAD_S)],
)
def test_a_download_that_ends_early_breaks_off(
    reason: str, read_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_whole = reason in {"", ENOUGH} and not read_s

    async def read_one(
        _consumer: object,
        _bounds: object,
        take: Callable[[ConsumerRecord], Awaitable[bool]],
        deliver: Callable[[], Awaitable[None]],
    ) -> str:
        await take(ConsumerRecord("t", 0, 0, 0, "CreateTime", None, None, (), 0))
        await deliver()
        await trio.sleep(read_s)
        return reason

    monkeypatch.setattr(handlers, "DOWNLOAD_PIECE_BYTES", 1)
    monkeypatch.setattr(handlers, "read_bounds", no_bounds)
    monkeypatch.setattr(handlers, "read_through", read_one)
    monkeypatch.setattr(handlers, "open_consumer", nothing)

    async def run() -> bool:
        async with trio.open_nursery() as nursery:
            context = SimpleNamespace(nursery=nursery, streams=WorkLimits(most=1, most_of_one=1))
            page_request: Any = SimpleNamespace(
                value=lambda _name: "t",
                query={},
                person=SimpleNamespace(user="ann"),
                registry_maker=None,
                clients=None,
                admin=no_admin,
                context=context,
            )
            response: Any = await handlers.download(page_request)
            pieces = aiter(response.body)
            assert b'"topic": "t"' in await anext(pieces), "what was read is not lost"
            try:
                await anext(pieces)
            except HttpError:
                return False
            except StopAsyncIteration:
                return True
        raise AssertionError

    assert trio.run(run, clock=MockClock(autojump_threshold=0)) == is_whole
