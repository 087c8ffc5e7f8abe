"""Our bytes for given values equal those of Apache Kafka 4.3.1's own classes.

They are read as those values. One line of the file is one message in one version; every stored
record has all its versions, every API the versions at its ends and around its first flexible one.
"""

import importlib
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from log_service.protocol.codec import decode, encode
from log_service.protocol.messages.fetch import FetchResponse
from log_service.protocol.schema import Message
from log_service.protocol.stored.group_records import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from log_service.protocol.stored.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "golden_kafka_4_3_1.jsonl").read_text().splitlines()
]


def message_class(path: str) -> type[Message]:
    module, _, name = path.partition(":")
    found: type[Message] = getattr(importlib.import_module(f"log_service.protocol.{module}"), name)
    return found


def built(cls: type[Message], plain: dict[str, Any]) -> Message:
    structs = {field.name: field.struct for field in cls.SCHEMA.fields}
    return cls(**{name: _member(structs[name], member) for name, member in plain.items()})


def _member(struct: type[Message] | None, plain: Any) -> Any:
    if isinstance(plain, list):
        return [_member(struct, each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    if struct is not None:
        return built(struct, plain)
    return bytes.fromhex(plain["hex"]) if "hex" in plain else UUID(plain["uuid"])


def named(vector: dict[str, Any]) -> str:
    return f"{vector['message'].partition(':')[2]}-v{vector['version']}"


@pytest.mark.parametrize("vector", VECTORS, ids=named)
def test_bytes_are_kafkas(vector: dict[str, Any]) -> None:
    cls = message_class(vector["message"])
    message = built(cls, vector["value"])
    encoded = bytes.fromhex(vector["hex"])
    assert encode(message, vector["version"]) == encoded
    assert decode(cls, vector["version"], encoded) == (message, len(encoded))


def test_vectors_cover_what_matters_most() -> None:
    covered = {(vector["message"].partition(":")[2], vector["version"]) for vector in VECTORS}
    for cls, versions in (
        (PartitionRecord, range(3)),
        (PartitionChangeRecord, range(3)),
        (RegisterBrokerRecord, range(5)),
        (OffsetCommitKey, range(1)),
        (OffsetCommitValue, range(5)),
        (GroupMetadataValue, range(5)),
        (FetchResponse, (4, 11, 12, 18)),
    ):
        assert {(cls.__name__, version) for version in versions} <= covered
