"""An issuer's keys are fetched when one is unknown or old, from its own URL. A failure has a cost."""

import http.server
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from log_service.security.issuer_requests import MAX_DOCUMENT_BYTES
from log_service.security.jwks import (
    FILE_CHECK_INTERVAL_S,
    MAX_MISSING_KEYS,
    MIN_PAUSE_MS,
    Fetch,
    Jwks,
    JwksConfig,
    fetch_document,
)
from log_service.security.sasl.oauthbearer import TokenRefusedError
from log_service.security.sasl.web_tokens import WebTokenRules
from tests.unit.security.sasl.issuer import NOW_S, jwk, key_set, token


class TrioTime:
    """A node's clock that follows trio's."""

    def wall_ms(self) -> int:
        return NOW_S * 1_000

    def monotonic_ms(self) -> int:
        return int(trio.current_time() * 1_000)

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000


class Issuer:
    """The server behind the URL fails while ``content`` is None."""

    def __init__(self, content: bytes | None) -> None:
        self.content = content
        self.fetched_at: list[float] = []

    def fetch(self, url: str) -> bytes:
        self.fetched_at.append(round(trio.current_time(), 3))
        if self.content is None:
            raise OSError("the issuer is down")
        return self.content


async def at_once(work: Callable[[], Any]) -> Any:
    await trio.lowlevel.checkpoint()
    return work()


def play(issuer: Issuer, story: Callable[[Jwks], Any], **config: Any) -> None:
    async def main() -> None:
        jwks = Jwks(
            JwksConfig(url="https://issuer/keys", **config),
            WebTokenRules(),
            TrioTime(),
            fetch=issuer.fetch,
            run_in_thread=at_once,
        )
        await jwks.refresh()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(jwks.run)
            await story(jwks)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_keys_are_fetched_in_an_interval_and_again_soon_after_a_failure() -> None:
    issuer = Issuer(key_set(jwk("rsa")))

    async def story(jwks: Jwks) -> None:
        await trio.sleep(1.5)
        issuer.content = None
        await trio.sleep(1.5)
        assert jwks.validate(token("rsa")).subject == "alice"

    play(issuer, story, refresh_ms=1_000, retry_backoff_ms=100, retry_backoff_max_ms=300)
    assert issuer.fetched_at == [0.0, 1.0, 2.0, 2.1, 2.3, 2.6, 2.9]


@pytest.mark.parametrize("content", [key_set(jwk("rsa")), None], ids=["up", "down"])
def test_pauses_of_nothing_do_not_flood_the_issuer(content: bytes | None) -> None:
    issuer = Issuer(key_set(jwk("rsa")))

    async def story(_: Jwks) -> None:
        issuer.content = content
        await trio.sleep(1.05)

    play(issuer, story, refresh_ms=0, retry_backoff_ms=0, retry_backoff_max_ms=0)
    assert len(issuer.fetched_at) == 1 + 1_000 // MIN_PAUSE_MS


def test_key_that_is_not_known_is_fetched_at_once_and_only_once_a_minute() -> None:
    issuer = Issuer(key_set(jwk("rsa")))

    async def story(jwks: Jwks) -> None:
        for _ in range(3):
            with pytest.raises(TokenRefusedError):
                jwks.validate(token("other rsa"))
            await trio.sleep(1)
        assert len(issuer.fetched_at) == 2
        issuer.content = key_set(jwk("rsa"), jwk("other rsa"))
        await trio.sleep(60)
        with pytest.raises(TokenRefusedError):
            jwks.validate(token("other rsa"))
        await trio.sleep(1)
        assert jwks.validate(token("other rsa")).subject == "alice"
        assert len(issuer.fetched_at) == 3

    play(issuer, story)


def test_made_up_key_ids_do_not_flood_the_issuer() -> None:
    issuer = Issuer(key_set(jwk("rsa")))

    async def story(jwks: Jwks) -> None:
        for number in range(100):
            with pytest.raises(TokenRefusedError):
                jwks.validate(token("rsa", headers={"kid": f"made up {number}"}))
            await trio.sleep(0.1)
        assert len(issuer.fetched_at) <= MAX_MISSING_KEYS + 1

    play(issuer, story)


@pytest.mark.parametrize("content", [b"no document", key_set(jwk("weak rsa")), None])
def test_first_fetch_has_to_succeed(content: bytes | None) -> None:
    async def story(jwks: Jwks) -> None:
        raise AssertionError("it began without keys")

    with pytest.raises((OSError, ValueError)):
        play(Issuer(content), story)


# Real fetches


@contextmanager
def serving(status: int, body: bytes, **headers: str) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/keys"
        finally:
            server.shutdown()
            thread.join()


def test_document_over_http() -> None:
    with serving(200, b"keys") as url:
        assert fetch_document(url) == b"keys"


@pytest.mark.parametrize("status", [301, 302, 307, 404, 500])
def test_redirects_and_failures_are_no_documents(status: int) -> None:
    with (
        serving(200, b"stolen") as elsewhere,
        serving(status, b"", Location=elsewhere) as url,
        pytest.raises(OSError, match=str(status)),
    ):
        fetch_document(url)


def test_document_that_is_too_large() -> None:
    with (
        serving(200, bytes(MAX_DOCUMENT_BYTES + 1)) as url,
        pytest.raises(OSError, match="more than"),
    ):
        fetch_document(url)


# Files


def test_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(jwk("rsa")) + b" " * MAX_DOCUMENT_BYTES)
    with pytest.raises(OSError, match="more than"):
        fetch_document(f"file://{path}")


def keep_reading(path: Path, fetch: Fetch, story: Callable[[Jwks], Any]) -> None:
    """Play a story while the keys in a file are kept."""

    async def main() -> None:
        jwks = Jwks(
            JwksConfig(url=f"file://{path}"),
            WebTokenRules(),
            TrioTime(),
            fetch=fetch,
            run_in_thread=at_once,
        )
        await jwks.refresh()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(jwks.run)
            await story(jwks)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def only_the_later_key_is_known(jwks: Jwks) -> None:
    """Look a little later than the file is looked at."""
    await trio.sleep(FILE_CHECK_INTERVAL_S + 1)
    assert jwks.validate(token("ec")).subject == "alice"
    with pytest.raises(TokenRefusedError):
        jwks.validate(token("rsa"))


def test_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(jwk("rsa")))

    async def story(jwks: Jwks) -> None:
        await trio.sleep(1)
        path.write_bytes(key_set(jwk("ec")))
        await only_the_later_key_is_known(jwks)

    keep_reading(path, fetch_document, story)


def test_file_that_is_written_in_place_as_old_and_as_long_as_before_is_read_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "keys.json"

    def write(content: bytes) -> None:
        path.write_bytes(content.ljust(4096))
        os.utime(path, ns=(1, 1))

    async def story(jwks: Jwks) -> None:
        write(key_set(jwk("ec")))
        await only_the_later_key_is_known(jwks)

    write(key_set(jwk("rsa")))
    keep_reading(path, fetch_document, story)


def test_file_that_is_replaced_just_after_it_was_read_is_read_again(tmp_path: Path) -> None:
    path, following = tmp_path / "keys.json", tmp_path / "following.json"
    path.write_bytes(key_set(jwk("rsa")))
    following.write_bytes(key_set(jwk("ec")))

    def fetch_and_replace(url: str) -> bytes:
        content = fetch_document(url)
        if following.exists():
            following.replace(path)
        return content

    keep_reading(path, fetch_and_replace, only_the_later_key_is_known)
