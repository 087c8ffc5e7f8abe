"""A dump of the metadata log shows records, and hides secrets."""

from typing import Any

import pytest

from log_service.cli.log_dump import HIDDEN, printable, whole
from log_service.metadata.image import ResourceType
from log_service.protocol.stored.metadata_records import ConfigRecord, UserScramCredentialRecord


@pytest.mark.parametrize("shown", [whole, printable])
@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("ssl.key.password", True),
        ("listener.name.ssl.ssl.keystore.password", True),
        ("plugin.of.somebody", True),
        ("log.retention.ms", False),
    ],
)
def test_passwords_of_brokers_are_hidden(shown: Any, name: str, *, is_hidden: bool) -> None:
    record = ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name="1", name=name, value="5000"
    )
    assert shown(record)["value"] == (HIDDEN if is_hidden else "5000")


@pytest.mark.parametrize("shown", [whole, printable])
def test_configuration_of_topics_is_shown(shown: Any) -> None:
    record = ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="orders", name="retention.ms", value="5000"
    )
    assert shown(record)["value"] == "5000"


@pytest.mark.parametrize("shown", [whole, printable])
def test_keys_of_users_are_hidden(shown: Any) -> None:
    record = UserScramCredentialRecord(
        name="alice",
        mechanism=1,
        salt=b"salt",
        stored_key=b"one",
        server_key=b"two",
        iterations=4096,
    )
    fields = shown(record)
    assert (fields["name"], fields["iterations"]) == ("alice", 4096)
    assert {fields["salt"], fields["stored_key"], fields["server_key"]} == {HIDDEN}
