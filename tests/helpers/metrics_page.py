"""Fetches a metrics page from a broker or a simulated one, and parses it strictly.

A line that is not right fails.
"""

import http.client
import re

from log_service.common.env import Network
from tests.helpers.broker_process import BrokerThread

LINE = re.compile(
    r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?[0-9.e+-]+|NaN|[+-]Inf)'
)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="')


class Page:
    """A parsed page: values by name and labels, as they are spelled."""

    def __init__(self, text: str) -> None:
        self.types: dict[str, str] = {}
        self.values: dict[tuple[str, str], float] = {}
        self.order: list[str] = []
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:]
                assert name not in self.types, "a family stands in one place"
                self.types[name] = kind
            elif not line.startswith("# HELP "):
                found = LINE.fullmatch(line)
                assert found is not None, line
                key = (found[1], found[2] or "")
                assert key not in self.values, f"twice: {line}"
                self.values[key] = float(found[3])
                self.order.append(found[1])

    def of(self, name: str, labels: str = "") -> float:
        """Return the value of one row."""
        return self.values[name, labels]

    def labels_of(self, name: str) -> set[str]:
        """Return the labels of a name's rows."""
        return {
            label for found, text in self.values if found == name for label in LABEL.findall(text)
        }

    def only_grows(self, name: str) -> bool:
        """Return whether a name is a counter: one by itself, or the count or sum of a summary."""
        whole = re.sub(r"_(count|sum)$", "", name)
        return self.types.get(name) == "counter" or (
            whole != name and self.types.get(whole) == "summary"
        )


def ask(
    broker: BrokerThread, path: str = "/metrics", method: str = "GET"
) -> tuple[int, str, http.client.HTTPMessage]:
    """Return the status, text and fields of the response to one request."""
    assert broker.broker.metrics_address is not None
    connection = http.client.HTTPConnection(*broker.broker.metrics_address, timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, response.headers


async def fetch(network: Network, host: str, port: int) -> str:
    """Return everything that a page's server sends before it closes the connection.

    That is the status line, the fields and the page.
    """
    connection = await network.connect(host, port)
    await connection.send_gathered(
        [b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]
    )
    received, buffer = b"", bytearray(100_000)
    while count := await connection.receive_into(buffer):
        received += buffer[:count]
    connection.close()
    return received.decode()
