"""The clients carry requests out on trio, on asyncio and in threads, each of them with bounds."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Lock
from typing import Any

import httpx
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from log_service.client import (
    BlockingSchemaRegistryClient,
    ConfigError,
    KafkaError,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from tests.helpers.authority import Authority
from tests.unit.client.schemas.registry_double import RegistryDouble, served

INT = Schema(text='"int"')
REGISTERED = b'{"id": 1, "schema": "\\"int\\""}'
Main = Callable[[], Coroutine[Any, Any, Any]]
ON_BOTH = pytest.mark.parametrize(
    "run", [trio.run, lambda main: asyncio.run(main())], ids=["trio", "asyncio"]
)


@pytest.fixture
def refusing() -> Iterator[str]:
    """The URL of a port that refuses connections: it is bound, and nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@ON_BOTH
def test_a_task_registers_and_reads(run: Callable[[Main], Any], refusing: str) -> None:
    """Over a real connection, with an address before it that does not respond."""
    with served(RegistryDouble()) as url:

        async def main() -> None:
            async with SchemaRegistryClient([refusing, url]) as registry:
                registered = await registry.register_schema("s", INT)
                assert (registered.id, registered.version) == (1, 1)
                registry.clear_caches()
                assert await registry.get_schema(1) == INT
                with pytest.raises(SchemaRegistryError, match="subject 'none'"):
                    await registry.get_latest_version("none")

        run(main)


def test_a_thread_registers_and_reads(refusing: str) -> None:
    """Over a real connection, with an address before it that does not respond."""
    with served(RegistryDouble()) as url, BlockingSchemaRegistryClient([refusing, url]) as registry:
        assert registry.register_schema("s", INT).id == 1
        registry.clear_caches()
        assert registry.get_schema(1) == INT
        with pytest.raises(SchemaRegistryError, match="subject 'none'"):
            registry.get_latest_version("none")


@ON_BOTH
def test_a_task_is_told_that_no_registry_responds(
    run: Callable[[Main], Any], refusing: str
) -> None:
    """With the address and the subject, after the retries."""

    async def main() -> None:
        async with SchemaRegistryClient(refusing, max_retries=1, retries_wait_ms=1) as registry:
            with pytest.raises(
                SchemaRegistryError, match=f"no schema registry .*subject 's' at {refusing}: .+"
            ):
                await registry.register_schema("s", INT)

    run(main)


def test_a_thread_is_told_that_no_registry_responds(refusing: str) -> None:
    """With the address and the subject, after the retries."""
    with (
        BlockingSchemaRegistryClient(refusing, max_retries=1, retries_wait_ms=1) as registry,
        pytest.raises(
            SchemaRegistryError, match=f"no schema registry .*subject 's' at {refusing}: .+"
        ),
    ):
        registry.register_schema("s", INT)


def large(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=b"x" * 5000)


def moved(request: httpx.Request) -> httpx.Response:
    return httpx.Response(302, headers={"Location": "http://elsewhere/"})


@ON_BOTH
@pytest.mark.parametrize(
    ("handle", "text"), [(large, "more than max_response_bytes=2048"), (moved, "status 302")]
)
def test_a_task_takes_no_large_response_and_no_redirect(
    run: Callable[[Main], Any], handle: Any, text: str
) -> None:
    """A login would go along with a redirect."""

    async def main() -> None:
        settings: dict[str, Any] = {
            "transport": httpx.MockTransport(handle),
            "max_response_bytes": 2048,
            "max_retries": 0,
        }
        async with SchemaRegistryClient("http://r", **settings) as registry:
            with pytest.raises(SchemaRegistryError, match=text):
                await registry.get_schema(1)

    run(main)


@pytest.mark.parametrize(
    ("handle", "text"), [(large, "more than max_response_bytes=2048"), (moved, "status 302")]
)
def test_a_thread_takes_no_large_response_and_no_redirect(handle: Any, text: str) -> None:
    """A login would go along with a redirect."""
    settings: dict[str, Any] = {
        "transport": httpx.MockTransport(handle),
        "max_response_bytes": 2048,
        "max_retries": 0,
    }
    with (
        BlockingSchemaRegistryClient("http://r", **settings) as registry,
        pytest.raises(SchemaRegistryError, match=text),
    ):
        registry.get_schema(1)


class Dripping(httpx.AsyncByteStream, httpx.SyncByteStream):
    """A response that never ends."""

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield b" "

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0)


def dripping(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=Dripping())


def test_a_response_that_does_not_end_is_given_up() -> None:
    """A timeout of each read alone would wait for ever."""
    settings: dict[str, Any] = {
        "transport": httpx.MockTransport(dripping),
        "max_retries": 0,
        "timeout": 0.05,
    }
    with (
        BlockingSchemaRegistryClient("http://r", **settings) as blocking,
        pytest.raises(SchemaRegistryError, match=r"timeout=0\.05 s"),
    ):
        blocking.get_schema(1)

    async def main() -> None:
        async with SchemaRegistryClient("http://r", **settings) as registry:
            with pytest.raises(SchemaRegistryError, match=r"timeout=0\.05 s"):
                await registry.get_schema(1)

    asyncio.run(main())


def test_tasks_share_a_request_for_the_same_schema() -> None:
    """If the task that sent it is cancelled, another one sends it again."""
    trio.run(shared_by_tasks)


async def shared_by_tasks() -> None:
    release, sent = trio.Event(), 0

    async def handle(request: httpx.Request) -> httpx.Response:
        nonlocal sent
        sent += 1
        await release.wait()
        return httpx.Response(200, content=REGISTERED)

    async with (
        SchemaRegistryClient("http://r", transport=httpx.MockTransport(handle)) as registry,
        trio.open_nursery() as nursery,
    ):
        scope = trio.CancelScope()

        async def first() -> None:
            with scope:
                await registry.get_schema(1)

        nursery.start_soon(first)
        await wait_all_tasks_blocked()
        for _ in range(9):
            nursery.start_soon(registry.get_schema, 1)
        await wait_all_tasks_blocked()
        assert sent == 1
        scope.cancel()
        await wait_all_tasks_blocked()
        assert sent == 2
        release.set()


def test_threads_share_a_request_for_the_same_schema() -> None:
    """No two of them are under way at once."""
    start, lock, under_way, most = Barrier(8), Lock(), 0, 0

    def handle(request: httpx.Request) -> httpx.Response:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        with lock:
            under_way -= 1
        return httpx.Response(200, content=REGISTERED)

    with BlockingSchemaRegistryClient(
        "http://r", transport=httpx.MockTransport(handle)
    ) as registry:

        def ask(_: int) -> Schema:
            start.wait(10)
            return registry.get_schema(1)

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(ask, range(8))) == [INT] * 8
    assert most == 1


def test_a_client_that_is_not_open_says_how_to_open_it() -> None:
    """It sends nothing."""
    with pytest.raises(KafkaError, match="use it inside 'async with'"):
        trio.run(SchemaRegistryClient("http://r").get_schema, 1)
    with pytest.raises(KafkaError, match="use it inside 'with'"):
        BlockingSchemaRegistryClient("http://r").get_schema(1)


def test_certificates_that_cannot_be_read_are_told_at_the_start(tmp_path: Path) -> None:
    """Not with the first request."""
    for kind in (SchemaRegistryClient, BlockingSchemaRegistryClient):
        with pytest.raises(ConfigError, match=r"none\.pem"):
            kind("https://r", ssl_ca=str(tmp_path / "none.pem"))


@ON_BOTH
def test_a_registry_has_to_show_a_trusted_certificate(
    run: Callable[[Main], Any], tmp_path: Path
) -> None:
    """And may ask for one, as brokers do."""
    authority = Authority(tmp_path / "trusted")
    issued, own = authority.issue("localhost"), authority.issue("ann")
    other = Authority(tmp_path / "other").issue("localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.keystore)
    tls.load_verify_locations(issued.truststore)
    tls.verify_mode = ssl.CERT_REQUIRED
    keys: dict[str, Any] = {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(own.keystore),
        "max_retries": 0,
    }
    with served(RegistryDouble(), tls) as url:

        async def main() -> None:
            async with SchemaRegistryClient(url, ssl_ca=str(issued.truststore), **keys) as registry:
                assert (await registry.register_schema("s", INT)).id == 1
            async with SchemaRegistryClient(url, ssl_ca=str(other.truststore), **keys) as registry:
                with pytest.raises(SchemaRegistryError, match="certificate verify failed"):
                    await registry.register_schema("s", INT)

        run(main)
        with BlockingSchemaRegistryClient(url, ssl_ca=str(issued.truststore), **keys) as registry:
            assert registry.register_schema("s", INT).id == 1
        with (
            BlockingSchemaRegistryClient(
                url, ssl_ca=str(issued.truststore), max_retries=0
            ) as registry,
            pytest.raises(SchemaRegistryError),
        ):
            registry.register_schema("s", INT)


def test_logins_go_with_each_request() -> None:
    """And no repr shows them."""
    double = RegistryDouble()
    with BlockingSchemaRegistryClient(
        "http://r", transport=double.transport(), basic_auth_user_info="ann:secret"
    ) as registry:
        registry.register_schema("s", INT)
        assert double.logins == ["Basic YW5uOnNlY3JldA=="]
        assert "secret" not in repr(registry)
