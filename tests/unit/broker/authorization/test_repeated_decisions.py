"""A repeated request uses the earlier decision until something else holds."""

import logging
from typing import Any

import pytest

from log_service.broker.authorization.access import Access
from log_service.broker.authorization.node_authorizer import NodeAuthorizer
from log_service.broker.handlers.produce import repeated
from log_service.broker.handlers.produce.repeated import Clearance
from log_service.common.access import ANONYMOUS, AclOperation, Principal
from log_service.metadata.image import TopicsById
from log_service.network.responses import ConnectionContext
from log_service.protocol.messages.fetch import FetchResponse
from log_service.protocol.messages.produce import ProduceResponse
from log_service.security.acls.authorizer import AclAuthorizer
from log_service.security.audit import LOGGER_NAME
from tests.unit.broker.authorization.acl_story import TOPIC, AclStory, acl, tell_with_acls
from tests.unit.broker.context import batch, fetch_request, produce_request

READ, WRITE = AclOperation.READ, AclOperation.WRITE
BY_NAME, BY_ID = 10, 13
VERSIONS = [BY_NAME, BY_ID]
FETCH_VERSIONS = [12, BY_ID]
DENIED = 29


class Writer:
    """Sends the same request to topic t again and again."""

    def __init__(self, node: AclStory, version: int) -> None:
        self._node = node
        self._version = version
        self._request = produce_request("t", batch(b"x"))

    async def made(self) -> "Writer":
        topic_id = await self._node.make_topic("t")
        if self._version >= BY_ID:
            self._request.topic_data[0].name, self._request.topic_data[0].topic_id = "", topic_id
        return self

    async def code(self) -> int:
        response: ProduceResponse = await self._node.ask(self._request, self._version)
        return response.responses[0].partition_responses[0].error_code

    async def codes(self, count: int) -> set[int]:
        return {await self.code() for _ in range(count)}


def context_of(node: AclStory) -> ConnectionContext:
    return next(iter(node.broker.servers[0].connections)).context


def authorizer_of(node: AclStory) -> NodeAuthorizer:
    assert node.broker.authorizer is not None
    return node.broker.authorizer


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Principal]:
    """The callers whose rights were looked up."""
    found: list[Principal] = []
    look_up = AclAuthorizer.rights_of

    def counting(self: AclAuthorizer, principal: Principal, host: str) -> Any:
        found.append(principal)
        return look_up(self, principal, host)

    monkeypatch.setattr(AclAuthorizer, "rights_of", counting)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_an_acl_that_is_removed_between_two_identical_produces_refuses_the_second(
    version: int,
) -> None:
    async def story(node: AclStory) -> None:
        writer = await Writer(node, version).made()
        for _ in range(2):
            await node.have_only((WRITE, TOPIC, "t"))
            assert await writer.codes(4) == {0}
            await node.forget_acls()
            assert await writer.codes(2) == {DENIED}

    tell_with_acls(story)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_acl_that_denies_counts_with_the_next_produce(version: int) -> None:
    async def story(node: AclStory) -> None:
        writer = await Writer(node, version).made()
        await node.allow((WRITE, TOPIC, "t"))
        assert await writer.codes(3) == {0}
        await node.add(acl((WRITE, TOPIC, "t"), permission=2, pattern=4))
        assert await writer.codes(2) == {DENIED}

    tell_with_acls(story)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_produce_that_comes_again_is_not_decided_on_again(
    version: int, asked: list[Principal]
) -> None:
    async def story(node: AclStory) -> None:
        writer = await Writer(node, version).made()
        await node.allow((WRITE, TOPIC, "t"))
        assert await writer.codes(2) == {0}  # decoded, and recognized for the first time
        seen, allowed_count = len(asked), authorizer_of(node).allowed_count
        assert seen >= 2
        assert await writer.codes(5) == {0}
        assert len(asked) == seen
        assert authorizer_of(node).allowed_count == allowed_count + 5
        await node.allow((READ, TOPIC, "another"))
        assert await writer.codes(3) == {0}
        assert len(asked) == seen + 1, "other ACLs, though they say the same here"

    tell_with_acls(story)


def test_a_refusal_is_not_remembered_as_a_clearance(asked: list[Principal]) -> None:
    async def story(node: AclStory) -> None:
        writer = await Writer(node, BY_NAME).made()
        assert await writer.codes(3) == {DENIED}
        assert authorizer_of(node).denied_count == 3
        assert len(asked) >= 3

    tell_with_acls(story)


def test_the_same_bytes_from_another_host_are_decided_on_by_themselves() -> None:
    async def story(node: AclStory) -> None:
        writer = await Writer(node, BY_NAME).made()
        context = context_of(node)
        context.peer_host = "10.0.0.1"
        await node.add(acl((WRITE, TOPIC, "t"), host="10.0.0.1"))
        assert await writer.codes(3) == {0}
        context.peer_host = "10.0.0.2"
        assert await writer.codes(3) == {DENIED}
        context.peer_host = "10.0.0.1"
        assert await writer.codes(2) == {0}

    tell_with_acls(story)


def test_the_same_bytes_from_another_principal_are_decided_on_by_themselves() -> None:
    async def story(node: AclStory) -> None:
        writer = await Writer(node, BY_NAME).made()
        context = context_of(node)
        await node.add(acl((WRITE, TOPIC, "t"), principal="User:alice"))
        for principal, code in [
            (Principal("User", "alice"), 0),
            (Principal("User", "bob"), DENIED),
            (ANONYMOUS, DENIED),
        ]:
            context.principal = principal
            assert await writer.codes(3) == {code}

    tell_with_acls(story)


def test_each_is_in_the_audit_log_where_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: AclStory) -> None:
        writer = await Writer(node, BY_NAME).made()
        await node.allow((WRITE, TOPIC, "t"))
        assert await writer.codes(3) == {0}
        with caplog.at_level(logging.DEBUG, LOGGER_NAME):
            assert await writer.codes(3) == {0}
        lines = [record.getMessage() for record in caplog.records if record.name == LOGGER_NAME]
        assert (
            len(
                [
                    line
                    for line in lines
                    if "is Allowed operation = WRITE" in line and "for request = Produce" in line
                ]
            )
            == 3
        )

    tell_with_acls(story)


class Reader:
    """Sends the same fetch of topic t again and again."""

    def __init__(self, node: AclStory, version: int) -> None:
        self._node = node
        self._version = version
        self._request = fetch_request("t", 0)

    async def made(self) -> "Reader":
        topic_id = await self._node.make_topic("t")
        if self._version >= BY_ID:
            self._request.topics[0].topic, self._request.topics[0].topic_id = "", topic_id
        return self

    async def codes(self, count: int) -> set[int]:
        responses: list[FetchResponse] = [
            await self._node.ask(self._request, self._version) for _ in range(count)
        ]
        return {response.responses[0].partitions[0].error_code for response in responses}


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_acl_that_changes_counts_with_the_next_fetch(version: int) -> None:
    async def story(node: AclStory) -> None:
        reader = await Reader(node, version).made()
        for _ in range(2):
            await node.have_only((READ, TOPIC, "t"))
            assert await reader.codes(3) == {0}
            await node.forget_acls()
            assert await reader.codes(2) == {DENIED}
        await node.allow((READ, TOPIC, "t"))
        assert await reader.codes(2) == {0}
        await node.add(acl((READ, TOPIC, "t"), permission=2, pattern=4))
        assert await reader.codes(2) == {DENIED}

    tell_with_acls(story)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_that_comes_again_makes_nothing_to_be_decided_on(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make, look_up = Access.__init__, TopicsById.get

    def making(self: Access, *parts: Any) -> None:
        make(self, *parts)
        made.append(self.api_name)

    def looking_up(self: TopicsById, *parts: Any) -> Any:
        made.append("topic by its id")
        return look_up(self, *parts)

    async def story(node: AclStory) -> None:
        reader = await Reader(node, version).made()
        await node.allow((READ, TOPIC, "t"))
        assert await reader.codes(1) == {0}
        monkeypatch.setattr(Access, "__init__", making)
        monkeypatch.setattr(TopicsById, "get", looking_up)
        allowed_count = authorizer_of(node).allowed_count
        assert await reader.codes(5) == {0}
        assert made == []
        assert authorizer_of(node).allowed_count == allowed_count + 5
        await node.allow((READ, TOPIC, "another"))
        assert await reader.codes(3) == {0}
        assert made.count("Fetch") == 1, "other ACLs, though they say the same here"

    tell_with_acls(story)


def test_the_same_fetch_of_another_client_is_decided_on_by_itself() -> None:
    async def story(node: AclStory) -> None:
        reader = await Reader(node, BY_ID).made()
        context = context_of(node)
        await node.add(acl((READ, TOPIC, "t"), principal="User:alice", host="10.0.0.1"))
        alice = Principal("User", "alice")
        for principal, host, code in [
            (alice, "10.0.0.1", 0),
            (alice, "10.0.0.2", DENIED),
            (Principal("User", "bob"), "10.0.0.1", DENIED),
            (alice, "10.0.0.1", 0),
            (ANONYMOUS, "10.0.0.1", DENIED),
        ]:
            context.principal, context.peer_host = principal, host
            assert await reader.codes(2) == {code}

    tell_with_acls(story)


def test_how_many_hosts_are_cleared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "MAX_CLEARED_HOSTS", 2)
    clearance, version = Clearance(), object()
    for number in range(5):
        clearance.add(version, f"10.0.0.{number}")
        assert len(clearance.hosts) <= 2
        assert f"10.0.0.{number}" in clearance.hosts


def test_a_clearance_forgets_what_other_acls_have_said() -> None:
    clearance, newer = Clearance(), object()
    clearance.add(object(), "10.0.0.1")
    clearance.add(newer, "10.0.0.2")
    assert clearance.version is newer
    assert clearance.hosts == {"10.0.0.2"}
