"""Only a real broker's fetch session takes a consumer's place in a full cache.

A client may only say that it is a broker.
"""

import pytest

from log_service.common.errors import ErrorCode
from tests.unit.broker.authorization.acl_story import (
    CLUSTER,
    CLUSTER_NAME,
    TOPIC,
    AclStory,
    Right,
    tell_with_acls,
)
from tests.unit.broker.authorization.matrix import CLUSTER_ACTION, READ
from tests.unit.broker.context import fetch_request


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ([], ErrorCode.NONE),
        ([(CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)], ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
    ids=["stranger", "broker"],
)
def test_who_is_no_broker_pushes_out_no_session_of_a_consumer(
    more: list[Right], kept: ErrorCode
) -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        await node.allow((READ, TOPIC, "t"), *more)
        started = fetch_request("t", 0)
        started.session_epoch = 0
        session_id = (await node.ask(started, 12)).session_id
        assert session_id
        claimed = fetch_request("t", 0)
        claimed.session_epoch, claimed.replica_id = 0, 1
        await node.ask(claimed, 12)
        going_on = fetch_request("t", 0)
        going_on.session_id, going_on.session_epoch = session_id, 1
        assert (await node.ask(going_on, 12)).error_code == kept

    tell_with_acls(story, max_incremental_fetch_session_cache_slots="1")
