"""An exchange with an issuer of tokens has bounds for time and bytes.

TLS decides about trust, and failures have names.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from log_service.common.errors import ConfigError
from log_service.security.issuer_errors import IssuerError
from log_service.security.issuer_requests import MAX_DOCUMENT_BYTES, IssuerTls, exchange, issuer_tls
from log_service.security.jwks import fetch_document
from log_service.security.sasl.jaas import OAUTHBEARER_MODULE, JaasEntry, parse_jaas
from tests.helpers.authority import LOOPBACK, Authority
from tests.helpers.garbage import counted_garbage
from tests.helpers.issuer_server import server_context, serving
from tests.helpers.ports import free_port

NO_ENTRY = IssuerTls()
PLANTED = "planted"


def entry(**options: str) -> JaasEntry:
    """A JAAS text whose options are named with underscores."""
    told = [name.replace("_", ".") + f'="{text}"' for name, text in options.items()]
    return parse_jaas(f"{OAUTHBEARER_MODULE} required {' '.join(told)};")


def trusting(path: Path, **more: str) -> IssuerTls:
    return issuer_tls(entry(ssl_truststore_type="PEM", ssl_truststore_location=str(path), **more))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_private_authority_of_the_jaas_text_is_trusted(authority: Authority) -> None:
    with serving(lambda _: (200, b"keys"), server_context(authority.issue("issuer"))) as issuer:
        assert (
            exchange(f"{issuer.base}/keys?of=all", trusting(authority.truststore)).body == b"keys"
        )
        assert fetch_document(f"{issuer.base}/keys", trusting(authority.truststore)) == b"keys"
        assert [request.path for request in issuer.asked] == ["/keys?of=all", "/keys"]
        assert issuer.asked[0].headers["Host"] == issuer.base.removeprefix("https://")


def test_distrust_names_the_url_and_whose_certificates_are_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path).truststore
    with serving(lambda _: (200, b"keys"), server_context(authority.issue("issuer"))) as issuer:
        for tls, trusted in (
            (NO_ENTRY, "the system's authorities"),
            (trusting(other), f"ssl.truststore.location={other}"),
        ):
            with pytest.raises(IssuerError) as caught:
                exchange(f"{issuer.base}/keys?key={PLANTED}", tls)
            assert f"certificate of {issuer.base}/keys is not trusted" in str(caught.value)
            assert f"trusted are {trusted}" in str(caught.value)
            assert "ssl.truststore.location" in str(caught.value)
            assert PLANTED not in str(caught.value)
            assert not caught.value.may_pass


@pytest.mark.parametrize(
    ("sans", "lasts", "told"),
    [
        (["elsewhere.example"], timedelta(days=1), "not valid for '127.0.0.1'"),
        (LOOPBACK, timedelta(days=-1), "certificate has expired"),
    ],
)
def test_certificates_that_nobody_accepts(
    authority: Authority, sans: list[str], lasts: timedelta, told: str
) -> None:
    issued = authority.issue("issuer", sans, lasts=lasts)
    with (
        serving(lambda _: (200, b"keys"), server_context(issued)) as issuer,
        pytest.raises(IssuerError, match=told) as caught,
    ):
        exchange(f"{issuer.base}/keys", trusting(authority.truststore))
    assert "ssl.truststore" not in str(caught.value), "no other trust store helps"
    assert not caught.value.may_pass


def test_issuer_that_asks_for_a_certificate_gets_that_of_the_jaas_text(
    authority: Authority,
) -> None:
    service = authority.issue("service")
    tls = trusting(
        authority.truststore, ssl_keystore_type="PEM", ssl_keystore_location=str(service.keystore)
    )
    with serving(
        lambda _: (200, b"keys"), server_context(authority.issue("issuer"), wants=authority)
    ) as issuer:
        assert exchange(f"{issuer.base}/keys", tls).body == b"keys"
        with pytest.raises(IssuerError):
            exchange(f"{issuer.base}/keys", trusting(authority.truststore))


def test_stores_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"the options of sasl\.jaas\.config: ssl\.truststore\.password does not belong",
    ):
        trusting(tmp_path, ssl_truststore_password="x")
    with pytest.raises(ConfigError, match=r"none\.pem"):
        trusting(tmp_path / "none.pem").context()
    with (
        serving(lambda _: (200, b"")) as issuer,
        pytest.raises(IssuerError, match=r"TLS with https://127.*none\.pem"),
    ):
        exchange(issuer.base.replace("http:", "https:"), trusting(tmp_path / "none.pem"))


def test_issuer_that_is_down_may_be_up_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(
        IssuerError, match=f"http://127.0.0.1:{port}/keys cannot be reached"
    ) as caught:
        exchange(f"http://user:{PLANTED}@127.0.0.1:{port}/keys", NO_ENTRY)
    assert caught.value.may_pass
    assert PLANTED not in str(caught.value)


def test_host_that_is_not_known() -> None:
    with pytest.raises(
        IssuerError, match=r"http://issuer\.invalid/keys cannot be reached"
    ) as caught:
        exchange("http://issuer.invalid/keys", NO_ENTRY)
    assert caught.value.may_pass


# Peers that mean no good


@contextmanager
def saying(speak: Callable[[socket.socket], None]) -> Iterator[str]:
    """Take one connection and let ``speak`` have it, until the other side leaves."""

    def take() -> None:
        stream, _ = listener.accept()
        with stream, suppress(OSError):
            stream.recv(1 << 16)
            speak(stream)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/keys"
        finally:
            thread.join()


def drip(head: bytes) -> Callable[[socket.socket], None]:
    def speak(stream: socket.socket) -> None:
        stream.sendall(head)
        while True:
            stream.sendall(b"x")
            time.sleep(0.01)

    return speak


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nA: ",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n",
    ],
)
def test_document_that_trickles_in_is_given_up(head: bytes) -> None:
    with (
        saying(drip(head)) as url,
        pytest.raises(
            IssuerError, match=r"did not send its whole response within 0\.3 s"
        ) as caught,
    ):
        exchange(url, NO_ENTRY, timeout_s=0.3)
    assert caught.value.may_pass


def say_nothing(stream: socket.socket) -> None:
    stream.recv(1)


def test_issuer_that_says_nothing_is_given_up() -> None:
    with saying(say_nothing) as url, pytest.raises(IssuerError, match=r"within 0\.3 s"):
        exchange(url, NO_ENTRY, timeout_s=0.3)


def test_handshake_that_never_ends_is_given_up() -> None:
    with saying(say_nothing) as url, pytest.raises(IssuerError, match=r"within 0\.3 s"):
        exchange(url.replace("http:", "https:"), NO_ENTRY, timeout_s=0.3)


def flood(head: bytes, part: bytes) -> Callable[[socket.socket], None]:
    def speak(stream: socket.socket) -> None:
        stream.sendall(head)
        while True:
            stream.sendall(part)

    return speak


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", bytes(1 << 16)),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"10000\r\n" + bytes(1 << 16) + b"\r\n",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000),
    ],
)
def test_document_without_an_end_is_given_up(head: bytes, part: bytes) -> None:
    with (
        saying(flood(head, part)) as url,
        pytest.raises(IssuerError, match=f"sent more than {MAX_DOCUMENT_BYTES} bytes") as caught,
    ):
        exchange(url, NO_ENTRY)
    assert not caught.value.may_pass


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
    ],
)
def test_what_is_no_http_or_ends_early(said: bytes) -> None:
    with (
        saying(lambda stream: stream.sendall(said)) as url,
        pytest.raises(IssuerError, match="did not respond in HTTP"),
    ):
        exchange(url, NO_ENTRY)


def test_issuer_without_tls_where_tls_is_wanted() -> None:
    with (
        serving(lambda _: (200, b"keys")) as issuer,
        pytest.raises(IssuerError, match=r"the TLS handshake with https://.* failed"),
    ):
        exchange(issuer.base.replace("http:", "https:"), NO_ENTRY)


def test_issuer_that_is_down_leaves_no_garbage() -> None:
    with counted_garbage("") as left:
        for _ in range(3):
            with suppress(IssuerError):
                exchange(f"http://127.0.0.1:{free_port()}/keys", NO_ENTRY)
    assert left == {}
