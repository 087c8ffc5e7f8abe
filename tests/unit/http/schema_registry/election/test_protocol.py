"""The bytes that registries exchange in their group, and the choice of the leader."""

import json
from dataclasses import replace
from typing import Any

import pytest

from log_service.http.schema_registry.election.protocol import (
    DUPLICATE_URLS,
    Assignment,
    RegistryInstance,
    UnreadableMember,
    choose,
    decode_assignment,
    decode_instance,
    encode_assignment,
    encode_instance,
)

ONE = RegistryInstance(scheme="http", host="one", port=8081)
TWO = RegistryInstance(scheme="http", host="two", port=8081)
OBSERVER = RegistryInstance(scheme="http", host="a", port=8081, is_eligible=False)


@pytest.mark.parametrize(
    ("members", "leader"),
    [
        ({"x": TWO, "y": ONE}, "y"),
        ({"x": TWO, "y": OBSERVER}, "x"),
        ({"x": OBSERVER}, None),
        ({"x": replace(ONE, port=9), "y": replace(ONE, port=80)}, "y"),
        ({"x": replace(ONE, scheme="https"), "y": TWO}, "y"),
    ],
    ids=["smallest", "eligible", "none", "as text", "with scheme"],
)
def test_the_eligible_member_with_the_smallest_url_leads(
    members: dict[str, RegistryInstance], leader: str | None
) -> None:
    """All registries choose alike, whoever of them chooses."""
    chosen = choose(members)
    assert chosen.leader_id == leader
    assert chosen.leader == (None if leader is None else members[leader])
    assert chosen.error == 0


@pytest.mark.parametrize(
    ("members", "leader"),
    [
        ({"x": ONE, "y": replace(TWO, is_leader=True)}, "y"),
        ({"x": replace(ONE, is_leader=True), "y": replace(TWO, is_leader=True)}, "x"),
        ({"x": TWO, "y": replace(OBSERVER, is_leader=True)}, "x"),
    ],
    ids=["one", "two", "not eligible"],
)
def test_a_present_leader_stays_if_leadership_is_sticky(
    members: dict[str, RegistryInstance], leader: str
) -> None:
    """Two that believe to lead are no reason to keep one of them."""
    assert choose(members, is_sticky=True).leader_id == leader
    smallest = min(
        (each for each in members if members[each].is_eligible), key=lambda each: members[each].url
    )
    assert choose(members).leader_id == smallest


def test_equal_urls_are_an_error_for_all() -> None:
    """Also those of a member that may not lead, because nobody could forward to the right one."""
    assert choose({"x": ONE, "y": replace(ONE, is_eligible=False)}).error == DUPLICATE_URLS


def test_members_tell_what_others_understand() -> None:
    """The names and their order are Confluent's."""
    assert (
        encode_instance(ONE)
        == b'{"version":1,"host":"one","port":8081,"master_eligibility":true,"scheme":"http"}'
    )
    assert json.loads(encode_instance(replace(ONE, is_leader=True)))["leader"] is True


def test_members_are_told_what_others_understand() -> None:
    """The names and their order are Confluent's."""
    assert encode_assignment(choose({"id": ONE})) == (
        b'{"version":1,"error":0,"master":"id","master_identity":'
        b'{"version":1,"host":"one","port":8081,"master_eligibility":true,"scheme":"http"}}'
    )
    assert encode_assignment(choose({"id": OBSERVER})) == b'{"version":1,"error":0}'


@pytest.mark.parametrize("instance", [ONE, OBSERVER, replace(TWO, is_leader=True)])
def test_an_instance_comes_back(instance: RegistryInstance) -> None:
    """Nothing of it is lost."""
    assert decode_instance(encode_instance(instance)) == instance
    assigned = Assignment(leader_id="id", leader=replace(instance, is_eligible=True))
    assert decode_assignment(encode_assignment(assigned)) == assigned


def test_what_karapace_sends_is_understood() -> None:
    """It has another version and a field of its own, and its assignments have no version."""
    told = {
        "version": 2,
        "karapace_version": "5.0.0",
        "host": "k",
        "port": 8081,
        "scheme": "http",
        "master_eligibility": True,
    }
    instance = RegistryInstance(scheme="http", host="k", port=8081)
    assert decode_instance(json.dumps(told).encode()) == instance
    assigned = {"master": "id", "master_identity": told, "error": 0}
    assert decode_assignment(json.dumps(assigned).encode()) == Assignment(
        leader_id="id", leader=instance
    )


def test_a_leader_that_is_not_eligible_is_none() -> None:
    """Karapace names one if no member is eligible."""
    assigned = {
        "master": "id",
        "master_identity": json.loads(encode_instance(OBSERVER)),
        "error": 0,
    }
    assert decode_assignment(json.dumps(assigned).encode()) == Assignment(
        leader_id=None, leader=None
    )


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b"{}",
        b'{"host":1,"port":8081}',
        b'{"host":"a","port":true}',
        b'{"host":"a","port":0}',
        b'{"host":"a","port":70000,"scheme":"http"}',
    ],
)
def test_garbage_of_a_member_is_named(told: bytes) -> None:
    """No other error leaves the decoder."""
    with pytest.raises(UnreadableMember):
        decode_instance(told)


@pytest.mark.parametrize(
    "assigned",
    [
        {"error": "no"},
        {"error": 0, "master": 1},
        {"error": 0, "master": "x", "master_identity": {}},
    ],
)
def test_garbage_of_an_assignment_is_named(assigned: Any) -> None:
    """No other error leaves the decoder."""
    with pytest.raises(UnreadableMember):
        decode_assignment(json.dumps(assigned).encode())
