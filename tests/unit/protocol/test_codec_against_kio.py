"""Our bytes of APIs that kafka-python lacks are kio's bytes, and it reads all of them.

They are requests between nodes, and newer APIs.
"""

import importlib
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from log_service.protocol.api_versions import KNOWN, request_class, response_class
from log_service.protocol.codec import encode
from log_service.protocol.schema import Message, has_version
from tests.unit.protocol.instances import in_each_version, named
from tests.unit.protocol.kafka_python_classes import their_class as theirs_of_kafka_python

COMPARED = {
    key
    for key, spec in KNOWN.items()
    if theirs_of_kafka_python(f"{spec.name}Request") is None
    and spec.advertised_min_version is not None
}
"""Every API of Kafka that kafka-python does not know."""

few = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))


def compared() -> list[type[Message]]:
    return [cls for key in sorted(COMPARED) for cls in (request_class(key), response_class(key))]


def their_class(cls: type[Message], version: int) -> Any:
    api, way = (
        cls.__module__.rpartition(".")[2],
        "request" if cls.__name__.endswith("Request") else "response",
    )
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{way}")
    return getattr(module, cls.__name__)


def same(ours: Any, theirs: Any, version: int) -> bool:
    """Return whether both have the same values.

    Kio says None for the zero uuid, and has no fields that the version lacks.
    """
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(
            same(one, other, version) for one, other in zip(ours, theirs, strict=True)
        )
    if hasattr(ours, "SCHEMA"):
        present = {
            field.name for field in ours.SCHEMA.fields if has_version(field.versions, version)
        }
        pairs = zip(
            (each for each in fields(ours) if each.name in present), fields(theirs), strict=True
        )
        return all(
            same(getattr(ours, one.name), getattr(theirs, other.name), version)
            for one, other in pairs
        )
    return _same_plain(ours, theirs)


def _same_plain(ours: Any, theirs: Any) -> bool:
    if ours is None:
        # A tagged struct that is not there has its defaults with them.
        return theirs is None or is_dataclass(theirs)
    if isinstance(ours, UUID):
        return (theirs or UUID(int=0)) == ours
    if isinstance(theirs, timedelta):
        return theirs == timedelta(milliseconds=ours)
    if isinstance(theirs, datetime):
        return theirs == datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ours)
    return bool(getattr(theirs, "value", theirs) == ours)


@pytest.mark.parametrize("cls", compared(), ids=named)
@few
@given(drawn=st.data())
def test_bytes_are_the_same(cls: type[Message], drawn: Any) -> None:
    """Tame values are drawn, because kio takes only existing error codes, and times that a clock
    can show.
    """
    is_tame = (
        cls.__name__.endswith(("Response", "DelegationTokenRequest"))
        or cls.__name__ == "AddRaftVoterRequest"
    )
    for version, message in in_each_version(drawn, cls, is_tame=is_tame):
        encoded = encode(message, version)
        theirs, size_bytes = entity_reader(their_class(cls, version))(encoded, 0)
        assert size_bytes == len(encoded)
        assert same(message, theirs, version)
        written = BytesIO()
        entity_writer(their_class(cls, version))(written, theirs)
        assert written.getvalue().hex() == encoded.hex()
