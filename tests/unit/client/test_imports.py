"""A program imports the rooms of the client that it uses, and no others."""

import subprocess
import sys

import pytest

from log_service import client

ROOMS = {"admin", "blocking", "connections", "consumer", "producer", "schemas"}
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
        ("from log_service.client import BlockingAvroSerializer", "schemas"),
    ],
)
def test_rooms_that_a_name_brings(statement: str, rooms: str) -> None:
    program = PROGRAM.format(statement=statement, rooms=ROOMS)
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout.strip() == rooms


@pytest.mark.parametrize("name", ["AvroSerializer", "JsonSchemaSerializer", "ProtobufSerializer"])
def test_a_serializer_imports_its_own_language_alone(name: str) -> None:
    """The packages of the other languages may be missing or slow to import."""
    packages = {
        "AvroSerializer": "fastavro",
        "JsonSchemaSerializer": "jsonschema",
        "ProtobufSerializer": "google.protobuf",
    }
    program = f"import sys; from log_service.client import {name}; print(*sorted({set(packages.values())} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout.split() == [packages[name]]


@pytest.mark.parametrize(
    "name",
    [
        "BlockingAvroSerializer",
        "JsonSchemaDeserializer",
        "ProtobufSerializer",
        "SchemaRegistryClient",
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_has_it(name: str) -> None:
    """The plain client comes without these packages."""
    missing = dict.fromkeys(("fastavro", "jsonschema", "google.protobuf", "httpx"))
    program = f"import sys; sys.modules.update({missing}); from log_service.client import {name}"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, timeout=60, capture_output=True, text=True
    )
    assert "serializers need it: pip install 'tidelog[schemas]'" in done.stderr


def test_every_public_name_is_there_and_no_other() -> None:
    public = vars(client)["__all__"]
    assert dir(client) == public
    assert all(getattr(client, name) is not None for name in public)
    with pytest.raises(AttributeError, match="attribute Nothing"):
        _ = client.Nothing  # type: ignore[attr-defined]
