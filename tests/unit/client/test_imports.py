"""A program imports the rooms of the client that it uses, and no others."""

import subprocess
import sys

import pytest

from log_service import client

ROOMS = {"admin", "blocking", "connections", "consumer", "producer"}
PROGRAM = """
import sys
{statement}
names = [name.split(".") for name in sys.modules]
print(*sorted({{name[2] for name in names if name[:2] == ["log_service", "client"] and len(name) > 2}} & {rooms}))
"""


@pytest.mark.parametrize(
    ("statement", "rooms"),
    [
        ("import log_service.client", ""),
        ("from log_service.client import KafkaError, TopicPartition", ""),
        ("from log_service.client import Producer", "connections producer"),
        ("from log_service.client import Admin", "admin connections"),
        ("from log_service.client import Consumer", "admin connections consumer"),
        ("from log_service.client import BlockingProducer", "blocking connections producer"),
    ],
)
def test_rooms_that_a_name_brings(statement: str, rooms: str) -> None:
    program = PROGRAM.format(statement=statement, rooms=ROOMS)
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.strip() == rooms


def test_every_public_name_is_there_and_no_other() -> None:
    public = vars(client)["__all__"]
    assert dir(client) == public
    assert all(getattr(client, name) is not None for name in public)
    with pytest.raises(AttributeError, match="attribute Nothing"):
        _ = client.Nothing  # type: ignore[attr-defined]
