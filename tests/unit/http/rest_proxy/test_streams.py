"""The streams of a proxy: whose login is still right, and when they end."""

import pytest
import trio

from log_service.http.rest_proxy.streams import LOGIN_PARTS, Streams
from log_service.http.server.streams import Send
from log_service.http.server.values import HttpError, HttpRequest

REQUEST = HttpRequest(method="GET", path="/", principal="User:ann")


@pytest.mark.parametrize(
    ("outcome", "is_right"),
    [
        ("User:ann", True),
        ("User:bob", False),
        (HttpError(401, "the password was changed"), False),
        (HttpError(503, "the cluster does not respond to logins"), True),
    ],
)
def test_a_stream_ends_with_its_login(outcome: str | HttpError, *, is_right: bool) -> None:
    """A cluster that does not respond for a moment ends no stream."""

    async def authenticate(_request: HttpRequest) -> str:
        await trio.lowlevel.checkpoint()
        if isinstance(outcome, HttpError):
            raise outcome
        return outcome

    async def run() -> bool:
        streams = Streams(1)
        streams.authenticate = authenticate
        return await streams.is_login_right(REQUEST)

    assert trio.run(run) == is_right


def test_streams_are_told_that_the_proxy_stops() -> None:
    """They end in order, and no further one begins."""

    async def run() -> list[bytes]:
        streams = Streams(1)

        async def make(send: Send) -> None:
            await send(b"first")
            await streams.stopping.wait()
            await send(b"last")

        async with trio.open_nursery() as nursery:
            await nursery.start(streams.run)
            body = streams.response(make, "text/plain").body
            assert not isinstance(body, bytes)
            found = [await anext(body)]
            with trio.CancelScope() as scope:
                scope.cancel()
                await streams.stop_on_cancel()
            found += [piece async for piece in body]
            with pytest.raises(HttpError, match="stopping"):
                streams.response(make, "text/plain")
            nursery.cancel_scope.cancel()
        return found

    assert trio.run(run) == [b"first", b"last"]


def test_a_login_has_a_part_of_all_streams() -> None:
    async def run() -> None:
        streams = Streams(LOGIN_PARTS)
        async with streams.places.one_of("User:ann"):
            with pytest.raises(HttpError) as refused:
                streams.places.check("User:ann")
            streams.places.check("User:bob")
        assert refused.value.status == 429
        assert refused.value.headers

    trio.run(run)
