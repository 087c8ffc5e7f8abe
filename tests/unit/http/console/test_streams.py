"""Responses that go on: their pieces, their events, and their end."""

import trio

from log_service.http.console.streams import Send, event, stream_of


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


def test_a_failure_ends_the_stream_alone() -> None:
    async def make(send: Send) -> None:
        await send(b"first")
        raise KeyError("a bug of ours")

    async def run() -> list[bytes]:
        async with trio.open_nursery() as nursery:
            return [piece async for piece in stream_of(nursery, make)]

    assert trio.run(run) == [b"first"]
