"""Writes that are forwarded to a leader: what goes along, what comes back, and what is given up."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import h11
import pytest
import trio

from log_service.common.errors import ConfigError
from log_service.http.schema_registry.forwarding import (
    Forwarder,
    ForwardingFailed,
    ForwardingLimits,
    LeaderUnknown,
    tls_of,
)
from log_service.http.server.values import HttpRequest, HttpResponse
from tests.helpers.authority import Authority
from tests.helpers.issuer_server import server_context
from tests.helpers.ports import free_ports
from tests.helpers.tls_network import tls_config_of

TYPE = "application/vnd.schemaregistry.v1+json"
LIMITS = ForwardingLimits(connect_timeout_s=5, timeout_s=10, max_response_bytes=10_000)


@dataclass
class Leader:
    """A leader over real sockets, with one response for all requests. It keeps what it is asked."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", TYPE),)
    body: bytes = b'{"id":1}'
    is_silent: bool = False
    asked: list[tuple[h11.Request, bytes]] = field(default_factory=list)
    connection_count: int = 0

    async def serve(self, stream: Any) -> None:
        """Respond to the requests of one connection."""
        self.connection_count += 1
        connection = h11.Connection(h11.SERVER)
        while connection.our_state is h11.IDLE:
            request, body = await self._read(stream, connection)
            if request is None:
                return
            self.asked.append((request, body))
            if self.is_silent:
                await trio.sleep_forever()
            headers = [*self.headers, ("Content-Length", str(len(self.body)))]
            await stream.send_all(
                connection.send(h11.Response(status_code=self.status, headers=headers)) or b""
            )
            await stream.send_all(
                (connection.send(h11.Data(data=self.body)) or b"")
                + (connection.send(h11.EndOfMessage()) or b"")
            )
            connection.start_next_cycle()

    async def _read(
        self, stream: Any, connection: h11.Connection
    ) -> tuple[h11.Request | None, bytes]:
        request, body = None, b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                try:
                    connection.receive_data(await stream.receive_some())
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return None, b""
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return request, body
            else:
                return None, b""

    @property
    def last(self) -> tuple[str, str, dict[str, str], bytes]:
        """Method, target, headers and body of the last request."""
        request, body = self.asked[-1]
        headers = {name.decode(): value.decode() for name, value in request.headers}
        return request.method.decode(), request.target.decode(), headers, body


@asynccontextmanager
async def serving(leader: Leader) -> AsyncIterator[str]:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, leader.serve, 0, host="127.0.0.1"))
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


def request_of(**fields: Any) -> HttpRequest:
    headers = {
        "authorization": "Basic abc",
        "content-type": TYPE,
        "accept": "application/json",
        "cookie": "secret",
        "host": "follower",
    }
    given: dict[str, Any] = {
        "method": "POST",
        "path": "/subjects/a/versions",
        "headers": headers,
        "body": b'{"schema":"x"}',
    }
    return HttpRequest(**(given | fields))


def tell(
    story: Callable[[Forwarder, str], Awaitable[None]],
    leader: Leader,
    limits: ForwardingLimits = LIMITS,
) -> None:
    """Run a story of one forwarder and one leader."""

    async def main() -> None:
        with trio.fail_after(60):
            async with serving(leader) as url, Forwarder(tls_of({}), limits) as forwarder:
                await story(forwarder, url)

    trio.run(main)


def test_login_types_and_body_go_along_with_a_mark() -> None:
    """The leader authorizes the client, and knows that it must not forward again. No other header
    goes along.
    """
    leader = Leader()

    async def story(forwarder: Forwarder, url: str) -> None:
        assert await forwarder.forward(url, request_of()) == HttpResponse(
            status=200, body=b'{"id":1}', content_type=TYPE
        )

    tell(story, leader)
    method, target, headers, body = leader.last
    assert (method, target, body) == ("POST", "/subjects/a/versions", b'{"schema":"x"}')
    assert headers["x-forward"] == "true"
    assert (headers["authorization"], headers["content-type"], headers["accept"]) == (
        "Basic abc",
        TYPE,
        "application/json",
    )
    assert not {"cookie", "accept-encoding"} & headers.keys()
    assert headers["host"] != "follower"


def test_a_wish_that_the_client_did_not_state_is_not_stated_for_it() -> None:
    """The leader chooses the type of its response as for the client itself."""
    leader = Leader()

    async def story(forwarder: Forwarder, url: str) -> None:
        await forwarder.forward(url, request_of(method="DELETE", headers={}, body=b""))

    tell(story, leader)
    assert not {"accept", "content-type", "authorization"} & leader.last[2].keys()


@pytest.mark.parametrize(
    ("path", "query", "target"),
    [
        ("/subjects/a%2Fb%3Ac%25%20d/versions", (), "/subjects/a%2Fb%3Ac%25%20d/versions"),
        (
            "/subjects/:.ctx:a/versions",
            (("normalize", "true"), ("x", "a b&c")),
            "/subjects/:.ctx:a/versions?normalize=true&x=a%20b%26c",
        ),
        ("/config", (("force", ""),), "/config?force="),
        ("/subjects/../versions/.", (), "/subjects/%2E%2E/versions/%2E"),
        ("/subjects/%2e%2e/versions", (), "/subjects/%2e%2e/versions"),
        ("//elsewhere/subjects/a", (), "//elsewhere/subjects/a"),
        ("/@elsewhere:1/a", (), "/@elsewhere:1/a"),
    ],
)
def test_path_and_query_arrive_as_they_came(
    path: str, query: tuple[tuple[str, str], ...], target: str
) -> None:
    """Subjects have slashes, colons and percent signs."""
    leader = Leader()

    async def story(forwarder: Forwarder, url: str) -> None:
        await forwarder.forward(url, request_of(path=path, query=query))

    tell(story, leader)
    assert leader.last[1] == target


@pytest.mark.parametrize(
    "leader",
    [
        Leader(status=409, body=b'{"error_code":409,"message":"x"}'),
        Leader(status=500, headers=(("Content-Type", "text/plain"),), body=b"no"),
        Leader(
            status=302, headers=(("Location", "http://elsewhere/"), ("Content-Type", "text/html"))
        ),
        Leader(status=200, headers=(), body=b""),
    ],
    ids=["refused", "failed", "redirect", "nothing"],
)
def test_a_response_comes_back_as_it_is(leader: Leader) -> None:
    """Status, body and type are the leader's. A redirect is not followed, because the login would
    go along.
    """

    async def story(forwarder: Forwarder, url: str) -> None:
        response = await forwarder.forward(url, request_of())
        content_type = dict(leader.headers).get("Content-Type", "")
        assert response == HttpResponse(
            status=leader.status, body=leader.body, content_type=content_type
        )

    tell(story, leader)
    assert len(leader.asked) == 1


def test_requests_share_connections() -> None:
    """A second request needs no new one."""
    leader = Leader()

    async def story(forwarder: Forwarder, url: str) -> None:
        for _ in range(3):
            await forwarder.forward(url, request_of())

    tell(story, leader)
    assert (len(leader.asked), leader.connection_count) == (3, 1)


def test_without_a_leader_nothing_is_sent() -> None:
    """The API calls it 50004."""

    async def story(forwarder: Forwarder, url: str) -> None:
        with pytest.raises(LeaderUnknown):
            await forwarder.forward(None, request_of())

    tell(story, Leader())


def test_a_leader_that_cannot_be_reached_is_named() -> None:
    """The API calls it 50003. Other leaders are reached as before."""
    (port,) = free_ports(1)

    async def story(forwarder: Forwarder, url: str) -> None:
        with pytest.raises(ForwardingFailed, match=f"http://127.0.0.1:{port}"):
            await forwarder.forward(f"http://127.0.0.1:{port}", request_of())
        with pytest.raises(ForwardingFailed):
            await forwarder.forward("http://[broken", request_of())
        await forwarder.forward(url, request_of())

    tell(story, Leader())


def test_a_leader_that_stays_silent_is_given_up() -> None:
    """The write is not sent twice, because the leader may have done it."""
    leader = Leader(is_silent=True)

    async def story(forwarder: Forwarder, url: str) -> None:
        with pytest.raises(ForwardingFailed):
            await forwarder.forward(url, request_of())

    tell(story, leader, ForwardingLimits(timeout_s=0.2))
    assert len(leader.asked) == 1


def test_a_response_without_end_is_given_up() -> None:
    """An instance that is no registry cannot fill the memory."""

    async def story(forwarder: Forwarder, url: str) -> None:
        with pytest.raises(ForwardingFailed, match="10000 bytes"):
            await forwarder.forward(url, request_of())

    tell(story, Leader(body=bytes(10_001)))


def test_a_leader_with_https_must_be_trusted(tmp_path: Path) -> None:
    """The settings are those of clients."""
    authority = Authority(tmp_path)
    issued = authority.issue("leader")
    leader = Leader()

    async def main() -> None:
        with trio.fail_after(60):
            context = _server_context(issued.keystore)
            async with trio.open_nursery() as nursery:
                start = partial(
                    trio.serve_ssl_over_tcp,
                    leader.serve,
                    0,
                    context,
                    host="127.0.0.1",
                    https_compatible=True,
                )
                listeners = await nursery.start(start)
                url = f"https://127.0.0.1:{listeners[0].transport_listener.socket.getsockname()[1]}"
                async with Forwarder(tls_of({"ssl_ca": str(issued.truststore)})) as trusting:
                    assert (await trusting.forward(url, request_of())).status == 200
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_caller_with_a_certificate_alone_is_named() -> None:
    """A login of its own goes along as it is, and an anonymous client has no name."""
    leader = Leader()

    async def story(forwarder: Forwarder, url: str) -> None:
        await forwarder.forward(
            url, request_of(headers={}, principal="User:CN=Jörg, O=A", peer="192.0.2.9")
        )
        named = leader.last[2]
        assert (named["x-forward-principal"], named["x-forward-host"]) == (
            "User:CN=J%C3%B6rg, O=A",
            "192.0.2.9",
        )
        for other in (request_of(principal="User:ann"), request_of(headers={})):
            await forwarder.forward(url, other)
            assert not {"x-forward-principal", "x-forward-host"} & leader.last[2].keys()

    tell(story, leader)


def test_a_header_of_the_client_names_no_caller() -> None:
    """The claim of a stranger does not go along."""
    leader = Leader()

    async def story(forwarder: Forwarder, url: str) -> None:
        claimed = {"x-forward-principal": "User:operator", "x-forward-host": "127.0.0.1"}
        await forwarder.forward(
            url, request_of(headers=claimed, principal="User:ann", peer="192.0.2.9")
        )
        named = leader.last[2]
        assert (named["x-forward-principal"], named["x-forward-host"]) == ("User:ann", "192.0.2.9")

    tell(story, leader)


def test_an_instance_shows_the_certificate_of_its_listener(tmp_path: Path) -> None:
    """A leader may want one of each client. A renewed one is shown by new connections."""
    authority = Authority(tmp_path)
    own = [authority.issue(name) for name in ("first", "second")]
    leader, seen = Leader(), list[str]()

    async def serve(stream: Any) -> None:
        await stream.do_handshake()
        seen.append(dict(part[0] for part in stream.getpeercert()["subject"])["commonName"])
        await leader.serve(stream)

    async def main() -> None:
        with trio.fail_after(60):
            context = server_context(authority.issue("leader"), wants=authority)
            async with trio.open_nursery() as nursery:
                start = partial(
                    trio.serve_ssl_over_tcp,
                    serve,
                    0,
                    context,
                    host="127.0.0.1",
                    https_compatible=True,
                )
                listeners = await nursery.start(start)
                url = f"https://127.0.0.1:{listeners[0].transport_listener.socket.getsockname()[1]}"
                first, second = (tls_of({}, tls_config_of(each.properties())) for each in own)
                async with Forwarder(first) as forwarder:
                    for _ in range(2):
                        assert (await forwarder.forward(url, request_of())).status == 200
                    await forwarder.renew(second)
                    assert (await forwarder.forward(url, request_of())).status == 200
                nursery.cancel_scope.cancel()

    trio.run(main)
    assert seen == ["first", "second"]


def test_a_setting_that_is_none_of_clients_is_refused() -> None:
    """A setting for logins to brokers means nothing here."""
    with pytest.raises(ConfigError, match="sasl_username"):
        tls_of({"sasl_username": "ann"})


def _server_context(keystore: Path) -> Any:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)
    return context
