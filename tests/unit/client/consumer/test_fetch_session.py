"""Fetch sessions (KIP-227): what is named, what is taken back, and when a session begins anew."""

import trio

from log_service.client import Consumer, ErrorCode, TopicPartition
from log_service.client.consumer.fetch_exchange import FetchExchange
from log_service.client.consumer.fetch_session import Asked, FetchSession
from log_service.common.types import TopicId
from log_service.protocol.messages.fetch import FetchRequest, FetchResponse
from tests.unit.client.scripted_broker import TOPIC_ID
from tests.unit.client.scripted_leader import Leader, tell, values


def asked(
    *numbers: int,
    offset: int = 0,
    topic_id: TopicId = TopicId(TOPIC_ID),  # noqa: B008 - a constant
) -> dict[TopicPartition, Asked]:
    one = Asked(
        topic_id=topic_id,
        fetch_offset=offset,
        current_leader_epoch=0,
        last_fetched_epoch=-1,
        max_bytes=9,
    )
    return {TopicPartition("t", number): one for number in numbers}


def step(
    session: FetchSession, wanted: dict[TopicPartition, Asked], response: FetchResponse
) -> tuple[int, int, list[int], list[int]]:
    """Send a request and take the response.

    Return session id, epoch, the partitions named and those taken back.
    """
    request = FetchRequest()
    session.fill(request, wanted)
    session.accept(response)
    named = [partition.partition for topic in request.topics for partition in topic.partitions]
    return (
        request.session_id,
        request.session_epoch,
        named,
        [number for topic in request.forgotten_topics_data for number in topic.partitions],
    )


def test_only_changes_are_named() -> None:
    session, granted = FetchSession(), FetchResponse(session_id=7)
    assert step(session, asked(0, 1), granted) == (0, 0, [0, 1], [])
    assert step(session, asked(0, 1), granted) == (7, 1, [], [])
    assert step(session, asked(0) | asked(1, offset=5), granted) == (7, 2, [1], [])
    assert step(session, asked(0, 2), granted) == (7, 3, [2], [1])


def test_a_topic_that_was_made_anew_is_taken_back_by_its_old_id_and_named_by_its_new_one() -> None:
    session, granted = FetchSession(), FetchResponse(session_id=7)
    step(session, asked(0), granted)
    request = FetchRequest()
    session.fill(request, asked(0, topic_id=TopicId(type(TOPIC_ID)(int=78))))
    assert [topic.topic_id for topic in request.topics] == [type(TOPIC_ID)(int=78)]
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [TOPIC_ID]


def test_a_broker_without_room_for_sessions_is_asked_in_full_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        assert step(session, asked(0, 1), FetchResponse(session_id=0)) == (0, 0, [0, 1], [])


def test_a_session_that_ended_begins_anew() -> None:
    session, granted = FetchSession(), FetchResponse(session_id=7)
    step(session, asked(0), granted)
    step(session, asked(0), FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert step(session, asked(0), FetchResponse(session_id=8)) == (0, 0, [0], [])
    step(session, asked(0), FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    assert step(session, asked(0), FetchResponse(session_id=9)) == (8, 0, [0], []), (
        "the broker may drop the old one"
    )
    session.reset()
    assert step(session, asked(0), FetchResponse(session_id=9)) == (9, 0, [0], [])


def test_a_consumer_speaks_in_sessions_survives_their_end_and_says_goodbye() -> None:
    requests = []

    async def story(leader: Leader, consumer: Consumer) -> None:
        requests.append(leader.requests)
        leader.session_id = 5
        leader.records(0, [b"a"])
        assert await values(consumer) == [b"a"]
        await trio.sleep(3)
        assert (
            next(request.topics for request in leader.requests if request.session_epoch > 1) == []
        ), "nothing changed"
        leader.session_errors.append(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        leader.records(1, [b"b"], partition=0)
        assert await values(consumer) == [b"b"]
        await trio.sleep(1)

    tell(story, partition_count=3)
    last = requests[0][-1]
    assert (last.session_id, last.session_epoch) == (5, -1)


def test_sessions_are_ended_while_a_fetch_from_another_broker_begins_one() -> None:
    class Connection:
        async def send_only(self, request: FetchRequest) -> None:
            ended.append(request.session_id)

    class Cluster:
        async def node(self, node_id: int, _purpose: str) -> Connection:
            # What a fetch does that is under way meanwhile.
            exchange._sessions[node_id + 1] = (
                True,
                opened(8),
            )
            return Connection()

    def opened(number: int) -> FetchSession:
        session = FetchSession()
        step(session, asked(0), FetchResponse(session_id=number))
        return session

    ended: list[int] = []
    exchange = FetchExchange(Cluster(), None, None)  # type: ignore[arg-type]
    exchange._sessions[1] = (True, opened(7))
    trio.run(exchange.end_sessions)
    assert ended == [7]
