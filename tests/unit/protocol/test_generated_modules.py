"""The checked-in modules are the generator's output, and nothing else lies beside them."""

from dataclasses import asdict, replace
from inspect import isfunction
from pathlib import Path

import pytest

from log_service.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from log_service.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from log_service.protocol.stored.consumer_group_records import ConsumerGroupMemberMetadataValue
from log_service.protocol.stored.metadata_records import UserScramCredentialRecord
from tests.unit.protocol.instances import messages
from tools.generate_messages import PROTOCOL, main, modules
from tools.message_facts import load_message, snake_case

GENERATED = dict(modules())
HAND_WRITTEN = {"__init__.py", "serde.py"}


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_module_is_what_the_generator_writes(path: Path) -> None:
    assert path.read_text() == GENERATED[path]


def test_nothing_else_lies_in_the_generated_folders() -> None:
    found = {
        path
        for folder in ("messages", "stored")
        for path in (PROTOCOL / folder).glob("*.py")
        if path.name not in HAND_WRITTEN
    }
    assert found == set(GENERATED)


def test_check_passes_on_the_tree() -> None:
    assert main(["--check"]) == 0


@pytest.mark.parametrize(
    ("kafka", "ours"),
    [
        ("ErrorCode", "error_code"),
        ("KRaftVersionFeature", "kraft_version_feature"),
        ("groupInstanceId", "group_instance_id"),
        ("LastKnownElr", "last_known_elr"),
        ("ISR", "isr"),
    ],
)
def test_names_become_python_names(kafka: str, ours: str) -> None:
    assert snake_case(kafka) == ours


def test_no_class_is_compiled_while_its_module_is_imported() -> None:
    """The ``dataclass`` decorator compiles every method that it writes, in each process anew.

    For all messages that took a tenth of a node's start.
    """
    for cls in messages():
        compiled = {
            name
            for name, part in vars(cls).items()
            if isfunction(part) and part.__code__.co_filename == "<string>"
        }
        assert not compiled, f"{cls.__name__}: {compiled}"


def test_a_message_is_changed_as_every_dataclass_is() -> None:
    one = HeartbeatRequest(group_id="g", generation_id=1)
    assert replace(one, generation_id=2) == HeartbeatRequest(group_id="g", generation_id=2)
    assert asdict(HeartbeatResponse(error_code=3)) == {"throttle_time_ms": 0, "error_code": 3}


def test_each_message_has_lists_and_structs_of_its_own() -> None:
    one, other = LeaveGroupResponse(), LeaveGroupResponse()
    one.members.append(MemberResponse(member_id="m"))
    assert not other.members
    assert (
        ConsumerGroupMemberMetadataValue().classic_member_metadata
        is not ConsumerGroupMemberMetadataValue().classic_member_metadata
    )
    assert (
        ConsumerGroupMemberMetadataValue(classic_member_metadata=None).classic_member_metadata
        is None
    )


def test_messages_are_equal_by_class_and_fields() -> None:
    one = HeartbeatRequest(group_id="g", generation_id=1)
    assert one == HeartbeatRequest(group_id="g", generation_id=1)
    assert one != HeartbeatRequest(group_id="g", generation_id=2)
    assert HeartbeatResponse() != LeaveGroupResponse()
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_a_message_shows_its_fields_but_no_secrets() -> None:
    assert (
        repr(HeartbeatResponse(error_code=3))
        == "HeartbeatResponse(throttle_time_ms=0, error_code=3)"
    )
    shown = repr(UserScramCredentialRecord(name="alice", salt=b"secret"))
    assert "alice" in shown
    assert "secret" not in shown


def test_versions_that_are_not_spoken_bring_no_fields() -> None:
    names = {
        field.name
        for field in load_message("ListOffsetsResponse", "1-11")  # type: ignore[union-attr]
        .struct.fields[1]
        .struct.fields[1]
        .struct.fields
    }
    assert "offset" in names
    assert "old_style_offsets" not in names


def test_unknown_message_is_said_to_be_missing() -> None:
    with pytest.raises(FileNotFoundError):
        load_message("NoSuchRequest")
