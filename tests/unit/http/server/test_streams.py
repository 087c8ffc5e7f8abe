"""Responses that go on: their pieces, their events, and their end."""

import pytest
import trio

from log_service.common.errors import ConfigError
from log_service.http.server.streams import Send, event, stream_of
from log_service.http.server.values import HttpError


def test_an_event_holds_no_line_of_its_own_making() -> None:
    text = event("records", "<tr>\r\nevent: end\rdata: x\n</tr>").decode()
    assert text.startswith("event: records\n")
    lines = text.removesuffix("\n\n").split("\n")[1:]
    assert all(line.startswith("data: ") for line in lines)
    assert "\r" not in text


def test_the_task_of_a_stream_ends_when_the_browser_leaves() -> None:
    ended = []

    async def make(send: Send) -> None:
        try:
            while True:
                await send(b"piece")
        finally:
            ended.append(True)

    async def run() -> list[bytes]:
        async with trio.open_nursery() as nursery:
            stream = stream_of(nursery, make)
            found = [await anext(stream), await anext(stream)]
            await stream.aclose()  # type: ignore[attr-defined]
        return found

    assert trio.run(run) == [b"piece", b"piece"]
    assert ended


@pytest.mark.parametrize(
    "error",
    [KeyError("a bug of ours"), ConfigError("no such file"), HttpError(503, "not all was read")],
)
def test_a_failure_breaks_its_stream_off_alone(error: Exception) -> None:
    """A stream that only ended looked complete, so that half a download passed for all of it."""

    async def make(send: Send) -> None:
        await send(b"first")
        raise error

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            stream = stream_of(nursery, make)
            assert await anext(stream) == b"first"
            with pytest.raises(HttpError, match="broke off"):
                await anext(stream)

    trio.run(run)


def test_a_stream_that_is_made_whole_ends() -> None:
    async def make(send: Send) -> None:
        await send(b"all")

    async def run() -> list[bytes]:
        async with trio.open_nursery() as nursery:
            return [piece async for piece in stream_of(nursery, make)]

    assert trio.run(run) == [b"all"]
