"""The network of proxies keeps the promises that chaos relies on.

It knows who connects, holds one direction, resets, and refuses for the dead.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.chaos.network import CLIENTS, HOST, Network

NODE, OTHER = 1, 2
NO_PROCESS = 2**22 + 1
"""Above any process id."""


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""
    with socket.create_server((HOST, 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    accepted, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=send_back, args=(accepted,), daemon=True).start()

        def send_back(accepted: socket.socket) -> None:
            with accepted, suppress(ConnectionResetError):
                while received := accepted.recv(100):
                    accepted.sendall(received)

        threading.Thread(target=serve, daemon=True).start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as running:
        yield running


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=5)


def test_bytes_pass_and_ports_of_the_dead_refuse(network: Network, echo: int) -> None:
    port = network.address_of(NODE, echo)
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    for _ in range(2):
        network.open(NODE, NO_PROCESS)
        with connect(port) as stream:
            stream.sendall(b"hello")
            assert stream.recv(100) == b"hello"
            stream.shutdown(socket.SHUT_WR)
            assert stream.recv(100) == b""
        network.close(NODE)
        with pytest.raises(ConnectionRefusedError):
            connect(port)


@pytest.mark.parametrize("is_node", [True, False], ids=["from a node", "from a client"])
def test_one_direction_of_one_pair_is_held_and_released(
    network: Network, echo: int, is_node: bool
) -> None:
    port = network.address_of(NODE, echo)
    network.open(NODE, NO_PROCESS)
    if is_node:
        network.open(OTHER, os.getpid())
    source, another = (OTHER, CLIENTS) if is_node else (CLIENTS, OTHER)
    with connect(port) as stream:
        network.hold([(NODE, another), (another, NODE)])
        stream.sendall(b"free")
        assert stream.recv(100) == b"free"
        network.hold([(NODE, source)])
        stream.sendall(b"held")
        stream.settimeout(0.2)
        with pytest.raises(TimeoutError):
            stream.recv(100)
        network.release([(NODE, source)])
        stream.settimeout(5)
        assert stream.recv(100) == b"held"


def test_a_connection_that_begins_while_its_way_is_held_waits(network: Network, echo: int) -> None:
    port = network.address_of(NODE, echo)
    network.open(NODE, NO_PROCESS)
    network.hold([(CLIENTS, NODE)])
    with connect(port) as stream:
        stream.sendall(b"late")
        stream.settimeout(0.2)
        with pytest.raises(TimeoutError):
            stream.recv(100)
        network.heal()
        stream.settimeout(5)
        assert stream.recv(100) == b"late"


def test_a_reset_ends_connections_and_new_ones_pass(network: Network, echo: int) -> None:
    port = network.address_of(NODE, echo)
    network.open(NODE, NO_PROCESS)
    with connect(port) as stream:
        stream.sendall(b"once")
        assert stream.recv(100) == b"once"
        network.reset(NODE)
        with pytest.raises(ConnectionResetError):
            stream.recv(100)
    with connect(port) as stream:
        stream.sendall(b"again")
        assert stream.recv(100) == b"again"
