"""A handshake admits a client under a name, or refuses it, as both sides are configured."""

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from log_service.common.access import ANONYMOUS, Principal
from log_service.common.env import Connection
from log_service.network.responses import ConnectionContext
from log_service.rpc.connection import Destination
from log_service.security.tls import listener as tls_listener
from log_service.security.tls.cipher_suites import TLS13_SUITES
from log_service.security.tls.connection import TlsConnection
from log_service.security.tls.contexts import is_for_host
from log_service.security.tls.failures import TlsError
from log_service.security.tls.listener import TlsListener
from log_service.security.tls.outgoing import OutgoingTls, RenewedTls
from tests.helpers.authority import Authority, Issued, fill
from tests.helpers.tls_network import tls_config_of
from tests.sim import MemoryNetwork

ALICE = Principal("User", "CN=alice")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def listener_of(issued: Issued, **texts: str) -> TlsListener:
    return TlsListener(tls_config_of(issued.properties() | named(texts)), Path.read_bytes)


def client_of(issued: Issued, *, is_known: bool = True, **texts: str) -> OutgoingTls:
    own = issued.properties()
    if not is_known:
        own = {name: text for name, text in own.items() if "keystore" not in name}
    return OutgoingTls(tls_config_of(own | named(texts)), Path.read_bytes)


def named(texts: Mapping[str, str]) -> dict[str, str]:
    return {f"ssl.{name.replace('_', '.')}": text for name, text in texts.items()}


class Meeting:
    """The result of a handshake is a principal and a version, or a reason, on each side."""

    def __init__(self, listener: TlsListener, client: OutgoingTls, host: str = "localhost") -> None:
        self.principal: Principal | None = None
        self.version: str | None = None
        self.listener_says = ""
        self.client_says = ""
        self.is_served = False
        self._listener = listener
        self._client = client
        self._host = host
        trio.run(self._meet, clock=MockClock(autojump_threshold=0))

    async def _meet(self) -> None:
        network = MemoryNetwork(Random(1))
        bound = await network.listen("", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._connect, await network.connect("localhost", 1))
            await self._serve(await bound.accept())

    async def _serve(self, stream: Connection) -> None:
        context = ConnectionContext(1, "peer", "here", "SSL")
        try:
            secured = await self._listener.secure(stream, context)
            assert isinstance(secured, TlsConnection)
            self.principal, self.version = context.principal, secured.version
            await secured.send_gathered([b"welcome"])
        except TlsError as error:
            self.listener_says = str(error.strerror)
            stream.close()

    async def _connect(self, stream: Connection) -> None:
        try:
            secured = await self._client.secure(Destination(host=self._host, port=1), stream)
            # In TLS 1.3 a refusal is read with the first bytes.
            self.is_served = bool(await secured.receive_into(bytearray(10)))
        except OSError as error:
            self.client_says = str(error.strerror)
            stream.close()


def test_whether_clients_show_certificates(authority: Authority, tmp_path: Path) -> None:
    node, alice = authority.issue("node"), authority.issue("alice", ())
    stranger = Authority(tmp_path / "other").issue("alice", ())
    strange = client_of(stranger, truststore_location=str(authority.truststore))
    outcomes = {
        auth: [
            meeting.principal
            for client in (client_of(alice), client_of(alice, is_known=False), strange)
            for meeting in [Meeting(listener_of(node, client_auth=auth), client)]
        ]
        for auth in ("none", "requested", "required")
    }
    assert outcomes == {
        "none": [ANONYMOUS, ANONYMOUS, ANONYMOUS],
        "requested": [ALICE, ANONYMOUS, None],
        "required": [ALICE, None, None],
    }


def test_both_sides_say_why_a_client_is_refused(authority: Authority) -> None:
    meeting = Meeting(
        listener_of(authority.issue("node"), client_auth="required"),
        client_of(authority.issue("alice"), is_known=False),
    )
    assert "the client shows no certificate" in meeting.listener_says
    assert "asks for a certificate, and we show none" in meeting.client_says


def test_each_certificate_of_a_trust_store_is_trusted_by_itself(
    authority: Authority, tmp_path: Path
) -> None:
    """An authority below another one, or a peer's own certificate, needs nothing above it in the
    store.

    Java does so, too.
    """
    node, alice, bob = (
        authority.issue("node"),
        authority.issue("alice", ()),
        authority.issue("bob", ()),
    )
    below = authority.authority_below(tmp_path / "below")
    carol, mallory = (
        below.issue("carol", ()),
        Authority(tmp_path / "elsewhere", "Test Authority").issue("carol", ()),
    )
    assert (
        Meeting(
            listener_of(node, client_auth="required", truststore_location=str(alice.chain)),
            client_of(alice),
        ).principal
        == ALICE
    )
    assert (
        "not trust"
        in Meeting(
            listener_of(node, client_auth="required", truststore_location=str(alice.chain)),
            client_of(bob),
        ).client_says
    )
    listener = listener_of(node, client_auth="required", truststore_location=str(below.truststore))
    told = {
        each: Meeting(listener, client_of(each, truststore_location=str(node.chain)))
        for each in (carol, mallory, alice)
    }
    assert [str(met.principal) for met in told.values()] == ["User:CN=carol", "None", "None"]


def test_the_host_that_a_client_asks_for_chooses_among_several_certificates(
    authority: Authority, tmp_path: Path
) -> None:
    shop, billing = (
        authority.issue("shop", ("shop.example",)),
        authority.issue("billing", ("billing.example", "*.billing.example")),
    )
    store = tmp_path / "several.pem"
    store.write_text(shop.keystore.read_text() + billing.keystore.read_text())
    alice = client_of(authority.issue("alice", ()))
    for protocol in ("TLSv1.2", "TLSv1.3"):
        listener = listener_of(
            shop, keystore_location=str(store), client_auth="required", enabled_protocols=protocol
        )
        for host in ("shop.example", "billing.example", "eu.billing.example", "BILLING.example"):
            meeting = Meeting(listener, alice, host)
            assert (meeting.is_served, meeting.principal, meeting.version) == (
                True,
                ALICE,
                protocol,
            ), host
        for host in ("other.example", "far.eu.billing.example"):
            assert "mismatch" in Meeting(listener, alice, host).client_says, (
                "the first certificate is shown, and is not for that host"
            )


def test_a_client_that_names_no_host_is_shown_the_first_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    first, second = (
        authority.issue("first", ("127.0.0.1",)),
        authority.issue("second", ("second.example",)),
    )
    store = tmp_path / "several.pem"
    store.write_text(first.keystore.read_text() + second.keystore.read_text())
    assert Meeting(
        listener_of(first, keystore_location=str(store)),
        client_of(authority.issue("alice", ())),
        "127.0.0.1",
    ).is_served


@pytest.mark.parametrize(
    ("host", "is_meant"),
    [
        ("a.example", True),
        ("A.Example.", True),
        ("x.b.example", True),
        ("b.example", False),
        ("x.y.b.example", False),
        ("example", False),
    ],
)
def test_which_hosts_a_certificate_is_for(host: str, is_meant: bool) -> None:
    assert is_for_host(frozenset({"a.example", "*.b.example", "*."}), host) is is_meant


def test_who_only_looks_whether_the_port_is_open_is_no_failed_handshake(
    authority: Authority,
) -> None:
    listener, caught = listener_of(authority.issue("node")), list[OSError]()

    async def look(said: bytes) -> None:
        network = MemoryNetwork(Random(1))
        bound = await network.listen("", 1)
        client = await network.connect("localhost", 1)
        if said:
            await client.send_gathered([said])
        client.close()
        try:
            await listener.secure(await bound.accept(), ConnectionContext(1, "peer", "here", "SSL"))
        except OSError as error:
            caught.append(error)

    for said in (b"", b"\x16\x03\x01\x02"):
        trio.run(look, said, clock=MockClock(autojump_threshold=0))
    assert [isinstance(error, ConnectionAbortedError) for error in caught] == [True, False], caught


def test_a_client_shows_the_certificate_that_its_files_hold_by_then(
    authority: Authority, tmp_path: Path
) -> None:
    first, second = authority.issue("alice", ()), Authority(tmp_path / "other").issue("alice", ())
    keystore, listener = (
        tmp_path / "client.pem",
        listener_of(authority.issue("node"), client_auth="required"),
    )
    fill(keystore, second.keystore)
    client = RenewedTls(
        tls_config_of({**first.properties(), "ssl.keystore.location": str(keystore)}),
        Path.read_bytes,
    )
    assert Meeting(listener, client).principal is None, "of a stranger"
    fill(keystore, first.keystore)
    assert Meeting(listener, client).principal == ALICE, (
        "of a file as old and as long as the one before"
    )
    keystore.write_bytes(b"damaged")
    assert Meeting(listener, client).principal == ALICE, "what was there before stays"


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_only_the_protocols_that_are_named_are_spoken(authority: Authority, protocol: str) -> None:
    listener = listener_of(authority.issue("node"), enabled_protocols=protocol)
    assert Meeting(listener, client_of(authority.issue("alice"))).version == protocol
    other = "TLSv1.2" if protocol == "TLSv1.3" else "TLSv1.3"
    meeting = Meeting(listener, client_of(authority.issue("alice"), enabled_protocols=other))
    assert "version" in meeting.listener_says + meeting.client_says
    assert meeting.principal is None


def test_only_the_suites_that_are_named_are_spoken(authority: Authority) -> None:
    suites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    listener = listener_of(authority.issue("node"), cipher_suites=suites)
    assert Meeting(listener, client_of(authority.issue("alice"))).version == "TLSv1.2"
    other = client_of(
        authority.issue("alice"), cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    )
    assert "no cipher suite in common" in Meeting(listener, other).listener_says
    newest = client_of(authority.issue("alice"), cipher_suites=",".join(TLS13_SUITES))
    assert Meeting(listener, newest).principal is None


def test_the_name_in_a_certificate_is_compared_with_the_host_unless_that_is_off(
    authority: Authority,
) -> None:
    listener = listener_of(authority.issue("node", ("node.example", "10.0.0.1")))
    alice = authority.issue("alice")
    assert Meeting(listener, client_of(alice), "node.example").is_served
    assert Meeting(listener, client_of(alice), "10.0.0.1").is_served
    assert (
        "certificate of the server is not accepted"
        in Meeting(listener, client_of(alice), "other.example").client_says
    )
    assert (
        "certificate of the server is not accepted"
        in Meeting(listener, client_of(alice), "10.0.0.2").client_says
    )
    assert Meeting(
        listener, client_of(alice, endpoint_identification_algorithm=""), "other.example"
    ).is_served


def test_rules_make_a_user_of_the_name_in_a_certificate(authority: Authority) -> None:
    listener = listener_of(
        authority.issue("node"),
        client_auth="required",
        principal_mapping_rules="RULE:^CN=(a.*)$/$1/U",
    )
    assert Meeting(listener, client_of(authority.issue("alice"))).principal == Principal(
        "User", "ALICE"
    )
    assert (
        "its certificate names no user"
        in Meeting(listener, client_of(authority.issue("bob"))).listener_says
    )


def test_a_client_whose_certificate_has_expired_is_refused(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client is not ours.
    monkeypatch.setattr("log_service.security.tls.contexts.validate_times", lambda _: None)
    client = client_of(authority.issue("alice", lasts=timedelta(days=-1)))
    meeting = Meeting(listener_of(authority.issue("node"), client_auth="required"), client)
    assert (
        "the certificate of the client is not accepted: certificate has expired"
        in meeting.listener_says
    )


def test_a_session_of_tls_1_2_is_not_taken_up_once_the_certificate_has_expired(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL does not look at the certificate of a session again.

    A client could come back by it for two hours more.
    """
    listener = listener_of(authority.issue("node"), client_auth="required")
    client = client_of(authority.issue("alice", ()), enabled_protocols="TLSv1.2")
    sessions: list[Any] = []
    outcomes: list[object] = []

    async def main() -> None:
        network = MemoryNetwork(Random(1))
        bound = await network.listen("", 1)

        async def connect() -> None:
            stream: Any = TlsConnection(
                await network.connect("localhost", 1),
                client.contexts.context,
                server_hostname="localhost",
            )
            for session in sessions:
                stream.ssl_object.session = session
            await stream.handshake()
            sessions[:] = [stream.ssl_object.session]

        async def meet() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connect)
                context = ConnectionContext(1, "peer", "here", "SSL")
                try:
                    secured = await listener.secure(await bound.accept(), context)
                except TlsError as error:
                    outcomes.append(str(error.strerror))
                else:
                    assert isinstance(secured, TlsConnection)
                    outcomes.append((context.principal, secured.is_resumed))

        await meet()
        await meet()
        later = tls_listener.utc_now() + timedelta(days=10_000)
        monkeypatch.setattr(tls_listener, "utc_now", lambda: later)
        await meet()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert outcomes[:2] == [(ALICE, False), (ALICE, True)]
    assert "it has expired" in str(outcomes[2])


@pytest.mark.parametrize(("version", "is_resumed"), [("TLSv1.2", True), ("TLSv1.3", False)])
def test_a_client_of_tls_1_3_shows_its_certificate_each_time(
    authority: Authority, version: str, *, is_resumed: bool
) -> None:
    """It has no ticket to come back by. A certificate that has ended, or is trusted no more, would
    count for as long as a ticket does.
    """
    listener = listener_of(authority.issue("node"), client_auth="required")
    client = client_of(authority.issue("alice", ()), enabled_protocols=version)
    sessions: list[Any] = []
    outcomes: list[object] = []

    async def connect(stream: Any) -> None:
        for session in sessions:
            stream.ssl_object.session = session
        await stream.handshake()
        assert await stream.receive_into(bytearray(9)) == 5, "tickets come with what is said first"
        sessions[:] = [stream.ssl_object.session]

    async def main() -> None:
        network = MemoryNetwork(Random(1))
        bound = await network.listen("", 1)
        for _ in range(2):
            bare = await network.connect("localhost", 1)
            context = ConnectionContext(1, "peer", "here", "SSL")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    connect,
                    TlsConnection(bare, client.contexts.context, server_hostname="localhost"),
                )
                secured: Any = await listener.secure(await bound.accept(), context)
                await secured.send_gathered([b"hello"])
            outcomes.append((context.principal, secured.is_resumed))

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert outcomes == [(ALICE, False), (ALICE, is_resumed)]


def test_a_slow_handshake_ends_at_its_deadline_and_half_open_ones_are_counted(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_listener, "MAX_HALF_OPEN_COUNT_PER_HOST", 2)
    listener = listener_of(authority.issue("node"))
    says: list[str] = []

    async def main() -> None:
        network = MemoryNetwork()
        bound = await network.listen("", 1)

        async def serve(stream: Connection) -> None:
            with pytest.raises(TlsError) as raised:
                await listener.secure(stream, ConnectionContext(1, "peer", "here", "SSL"))
            says.append(str(raised.value.strerror))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                await network.connect("localhost", 1)
                nursery.start_soon(serve, await bound.accept())
            await trio.sleep(1)
            assert listener.half_open_count == 2
        assert trio.current_time() - began >= tls_listener.HANDSHAKE_DEADLINE_MS / 1_000
        assert listener.half_open_count == 0

    began = 0.0
    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert "3" not in says[0]
    assert "2 TLS handshakes are under way" in says[0]
    assert all("was not complete after 10000 ms" in text for text in says[1:])


def test_an_address_with_many_silent_connections_keeps_nobody_else_out(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_listener, "MAX_HALF_OPEN_COUNT", 3)
    listener = listener_of(authority.issue("node"))
    ended: list[str] = []

    async def main() -> None:
        network = MemoryNetwork()
        bound = await network.listen("", 1)
        ends = []  # the clients', which must stay open

        async def serve(host: str, stream: Connection) -> None:
            with suppress(OSError):
                await listener.secure(stream, ConnectionContext(1, host, "here", "SSL"))
            ended.append(host)

        async with trio.open_nursery() as nursery:

            async def connect(host: str) -> None:
                ends.append(await network.connect("localhost", 1))
                nursery.start_soon(serve, host, await bound.accept())
                await trio.sleep(0.01)

            for _ in range(3):
                await connect("greedy")
            assert ended == []
            await connect("second")
            await connect("third")
            assert ended == ["greedy", "greedy"]
            assert listener.half_open_count == 3
            await connect("fourth")
            assert ended == ["greedy", "greedy", "fourth"], (
                "where all have one, those that came first keep theirs"
            )
            nursery.cancel_scope.cancel()
        assert listener.half_open_count == 0

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_connection_goes_on_when_the_certificate_of_its_client_ends(authority: Authority) -> None:
    """The broker looks at a certificate when a client connects, as Apache Kafka does.

    The next connection of this one is refused.
    """
    lasts = timedelta(seconds=4)
    listener = listener_of(authority.issue("node"), client_auth="required")
    ends = time.time() + lasts.total_seconds()
    client = client_of(authority.issue("alice", (), lasts=lasts))
    received = bytearray(10)

    async def main() -> None:
        network = MemoryNetwork()
        bound = await network.listen("", 1)

        async def serve() -> None:
            secured = await listener.secure(
                await bound.accept(), ConnectionContext(1, "peer", "here", "SSL")
            )
            # OpenSSL goes by the machine's clock.
            await trio.sleep(max(0.0, ends + 1.5 - time.time()))
            await secured.send_gathered([b"welcome"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            secured = await client.secure(
                Destination(host="127.0.0.1", port=1), await network.connect("localhost", 1)
            )
            assert await secured.receive_into(received) == len(b"welcome")

    trio.run(main)
    assert "certificate has expired" in Meeting(listener, client).listener_says
