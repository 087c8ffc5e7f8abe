"""Measures handshakes of TLS per second, logins by SCRAM, and the memory of idle connections.

The client is one program over Python's ``ssl``, the same for both brokers. A handshake is a new
connection over TLS 1.3 that asks for ApiVersions and gets its response. ``THREAD_COUNT`` threads
make them side by side. Logins are made one after the other. A login is timed from connecting until
the response to its last SaslAuthenticate, over SASL_SSL. The client salts its password once, as
clients do that keep their salted password.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.broker_process import BenchmarkError, BrokerProcess
from benchmarks.latency import garbage_collector_resting, percentile
from benchmarks.rounds import Bench, Sides, say
from benchmarks.secure_brokers import (
    PASSWORD,
    SASL_SSL,
    SCRAM,
    SSL,
    USER,
    SecureBroker,
    others_suspended,
    secure_brokers,
)
from benchmarks.table import Row, at_least, at_most
from benchmarks.wire import SecureWire
from log_service.common.secrets import SecretBytes, SecretText
from log_service.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from log_service.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from log_service.security.sasl.credentials import ScramMechanism
from log_service.security.sasl.scram import random_text, salted_password
from log_service.security.sasl.scram_client import SaltingWanted, ScramClient

HANDSHAKE_COUNT, LOGIN_COUNT, IDLE_COUNT = 2_000, 400, 1_000
MIN_COUNT = 50
THREAD_COUNT = 4
SETTLE_S = 2.0
ASKED = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
ASKED_VERSION, HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 3, 1, 2


class Logins:
    """Logs in as the user of the benchmark, again and again."""

    def __init__(self, secure: SecureBroker[BrokerProcess]) -> None:
        self._address = secure.addresses[SASL_SSL]
        self._context = secure.context()
        self._rng = random.SystemRandom()
        self._salted: dict[bytes, SecretBytes] = {}

    def login_ms(self) -> float:
        """Log in over a new connection, and return the time that took.

        Raises:
            BenchmarkError: the broker refused.
        """
        exchange = ScramClient(ScramMechanism.SHA_512, USER, random_text(self._rng.getrandbits))
        started = time.perf_counter()
        wire = SecureWire(self._address, self._context)
        try:
            if wire.ask(
                SaslHandshakeRequest(mechanism=SCRAM), HANDSHAKE_VERSION, SaslHandshakeResponse
            ).error_code:
                raise BenchmarkError(f"the broker does not take {SCRAM}")
            wanted = exchange.evaluate(self._authenticate(wire, exchange.first()))
            assert isinstance(wanted, SaltingWanted)
            exchange.evaluate(self._authenticate(wire, exchange.resume(self._salt(wanted))))
            return (time.perf_counter() - started) * 1e3
        finally:
            wire.close()

    def _authenticate(self, wire: SecureWire, token: bytes) -> bytes:
        response = wire.ask(
            SaslAuthenticateRequest(auth_bytes=token),
            AUTHENTICATE_VERSION,
            SaslAuthenticateResponse,
        )
        if response.error_code:
            raise BenchmarkError(f"the broker refused a login: {response.error_message}")
        return response.auth_bytes

    def _salt(self, wanted: SaltingWanted) -> SecretBytes:
        if wanted.salt not in self._salted:
            self._salted[wanted.salt] = salted_password(
                wanted.mechanism, SecretText(PASSWORD), wanted.salt, wanted.iterations
            )
        return self._salted[wanted.salt]


def measure_handshakes(secure: SecureBroker[BrokerProcess], bench: Bench) -> list[Row]:
    """Measure one round of new connections."""
    context, address, count = (
        secure.context(),
        secure.addresses[SSL],
        bench.count(HANDSHAKE_COUNT, at_least=MIN_COUNT),
    )

    def greet(_: int) -> None:
        wire = SecureWire(address, context)
        try:
            wire.ask(ASKED, ASKED_VERSION, ApiVersionsResponse)
        finally:
            wire.close()

    with ThreadPoolExecutor(THREAD_COUNT) as pool:
        cpu_before, started = secure.broker.cpu_s(), time.monotonic()
        for _ in pool.map(greet, range(count)):
            pass
        seconds, cpu_s = time.monotonic() - started, secure.broker.cpu_s() - cpu_before
    name = "TLS 1.3 handshakes, with one ApiVersions each"
    return [
        Row(figure=name, unit="1/s", rounds=(count / seconds,), goal=at_least(1.0)),
        Row(figure=f"  broker CPU of {name}", unit="ms each", rounds=(cpu_s / count * 1e3,)),
    ]


def measure_logins(secure: SecureBroker[BrokerProcess], bench: Bench) -> list[Row]:
    """Measure one round of logins."""
    logins = Logins(secure)
    logins.login_ms()  # which salts the password
    with garbage_collector_resting():
        ordered = sorted(
            logins.login_ms() for _ in range(bench.count(LOGIN_COUNT, at_least=MIN_COUNT))
        )
    name = "login by SCRAM-SHA-512 over SASL_SSL, connection included"
    return [
        Row(
            figure=f"{name}, p50", unit="ms", rounds=(percentile(ordered, 0.5),), goal=at_most(1.0)
        ),
        Row(figure=f"  {name}, p99", unit="ms", rounds=(percentile(ordered, 0.99),)),
    ]


def measure_idle(secure: SecureBroker[BrokerProcess], bench: Bench) -> list[Row]:
    """Measure the memory of connections with TLS that have asked once and wait.

    The broker has had few connections before. Memory that a process has taken for closed
    connections serves later ones, and its growth would be none.
    """
    count = bench.count(IDLE_COUNT, at_least=MIN_COUNT)
    with idle_connections(secure, MIN_COUNT):
        before = secure.broker.rss_bytes()
        with idle_connections(secure, count):
            after = secure.broker.rss_bytes()
    name = f"{count:,} idle TLS connections"
    return [
        Row(figure=f"{name}, RSS", unit="MB", rounds=(after / 1e6,), goal=at_most(1.0)),
        Row(
            figure=f"  growth of RSS with {name}",
            unit="KiB each",
            rounds=((after - before) / 1_024 / count,),
        ),
    ]


@contextlib.contextmanager
def idle_connections(secure: SecureBroker[BrokerProcess], count: int) -> Iterator[None]:
    """Open connections, and go on once the broker has settled."""
    context = secure.context()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            wire = SecureWire(secure.addresses[SSL], context)
            stack.callback(wire.close)
            wire.ask(ASKED, ASKED_VERSION, ApiVersionsResponse)
        time.sleep(SETTLE_S)
        yield


PARTS: tuple[Callable[[SecureBroker[BrokerProcess], Bench], list[Row]], ...] = (
    measure_handshakes,
    measure_logins,
)


@contextlib.contextmanager
def handshakes(bench: Bench) -> Iterator[Sides]:
    """Keep a broker of each product from round to round."""
    bench.stop_brokers()
    with secure_brokers(bench) as found:
        every = [each.broker for each in found.values()]

        idle: dict[str, list[Row]] = {}

        def measure_alone(name: str) -> list[Row]:
            with others_suspended(found[name].broker, every):
                return [*idle[name], *(row for part in PARTS for row in part(found[name], bench))]

        for name, secure in found.items():
            say(f"handshakes: idle connections of {name}, and warming it up")
            with others_suspended(secure.broker, every):
                idle[name] = measure_idle(secure, bench)
            measure_alone(name)
        yield bench.beside({name: partial(measure_alone, name) for name in found})
