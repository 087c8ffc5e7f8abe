"""Ports that tests ask for: kept away from others, not from the server that they are meant for."""

import socket

from tests.helpers.ports import free_port, free_ports


def test_a_server_listens_at_a_port_that_was_handed_out_and_again_after_a_pause() -> None:
    port = free_port()
    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", port)),
            socket.create_connection(("127.0.0.1", port), timeout=5),
        ):
            pass


def test_nobody_else_gets_a_port_while_its_server_is_down() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        pass
    assert port not in free_ports(200)
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0
