"""Fetch sessions (KIP-227): a leader remembers the partitions, and a request names only changes.

Decides which partitions a request names, which it removes, and when a session starts again. This
module knows neither network nor records.

Invariants: after a response that ``accept`` took, broker and client know the same partitions. After
an error, a lost connection or a refused session, the next request is full.
"""

from collections.abc import Mapping
from typing import NamedTuple

from log_service.common.errors import ErrorCode
from log_service.common.session_epochs import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from log_service.common.types import TopicId, TopicPartition
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

NO_SESSION = 0


class Asked(NamedTuple):
    """The fields of one partition in a fetch request."""

    topic_id: TopicId
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int


class FetchSession:
    """The session with one broker, for requests that name topics in one way (by id or by name)."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known: dict[TopicPartition, Asked] = {}
        self._asked: dict[TopicPartition, Asked] = {}

    def __repr__(self) -> str:
        return (
            f"<FetchSession {self._session_id} epoch={self._epoch} partitions={len(self._known)}>"
        )

    @property
    def is_open(self) -> bool:
        """Whether the broker has created a session, as far as the client knows."""
        return self._session_id != NO_SESSION

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, Asked]) -> None:
        """Add to ``request`` how ``wanted`` differs from the partitions that the broker knows.

        A request that begins a session names all partitions.
        """
        request.session_id, request.session_epoch = self._session_id, self._epoch
        self._asked = dict(wanted)
        if self._epoch == INITIAL_EPOCH:
            request.topics = _topics(wanted)
            return
        request.topics = _topics(
            {each: asked for each, asked in wanted.items() if self._known.get(each) != asked}
        )
        gone = {
            each: asked
            for each, asked in self._known.items()
            if each not in wanted or wanted[each].topic_id != asked.topic_id
        }
        request.forgotten_topics_data = _forgotten(gone)

    def accept(self, response: FetchResponse) -> bool:
        """Apply a response to the session, and return whether the broker accepted the session.

        If not, the session starts again with the next request.
        """
        if response.error_code != ErrorCode.NONE:
            self.reset(is_forgotten=response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return False
        self._known = self._asked
        if response.session_id == NO_SESSION:
            self.reset(is_forgotten=True)
        elif self._epoch == INITIAL_EPOCH or response.session_id != self._session_id:
            self._session_id, self._epoch = response.session_id, 1
        else:
            self._epoch = next_epoch(self._epoch)
        return True

    def reset(self, *, is_forgotten: bool = False) -> None:
        """Start the session again with the next request.

        That request also ends the old session, unless the broker has forgotten it.
        """
        self._epoch, self._known = INITIAL_EPOCH, {}
        if is_forgotten:
            self._session_id = NO_SESSION

    def end(self, request: FetchRequest) -> None:
        """Make ``request`` the last one of the session."""
        request.session_id, request.session_epoch = self._session_id, FINAL_EPOCH


def _topics(wanted: Mapping[TopicPartition, Asked]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, number), asked in wanted.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=asked.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=number,
                fetch_offset=asked.fetch_offset,
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                partition_max_bytes=asked.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(gone: Mapping[TopicPartition, Asked]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, TopicId], ForgottenTopic] = {}
    for (name, number), asked in gone.items():
        topic = topics.get((name, asked.topic_id))
        if topic is None:
            topic = topics[name, asked.topic_id] = ForgottenTopic(
                topic=name, topic_id=asked.topic_id
            )
        topic.partitions.append(number)
    return list(topics.values())
