"""Share sessions (KIP-932): a leader remembers the partitions, and a request names only changes.

Decides which partitions a request names and which epoch it carries. A session begins with a fetch,
never with an acknowledgement. This module knows neither network nor records.

Invariants: after a response that ``accept`` took, leader and client know the same partitions. In
all other cases the next request begins a new session. The new session does not own the records that
were acquired in the old one.
"""

from collections.abc import Mapping, Sequence

from log_service.client.share.acknowledgements import Batch
from log_service.common.session_epochs import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from log_service.common.types import TopicId, TopicPartition
from log_service.protocol.messages import share_acknowledge, share_fetch
from log_service.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from log_service.protocol.messages.share_fetch import ShareFetchRequest

Batches = Mapping[TopicPartition, Sequence[Batch]]


class ShareSession:
    """The state of the share session with one leader, from which requests are filled."""

    def __init__(self) -> None:
        self._epoch = INITIAL_EPOCH
        self._known: dict[TopicPartition, TopicId] = {}
        self._ids: dict[TopicPartition, TopicId] = {}
        self._places: dict[tuple[TopicId, int], TopicPartition] = {}
        self._asked: Mapping[TopicPartition, TopicId] | None = None

    def __repr__(self) -> str:
        return f"<ShareSession epoch={self._epoch} partitions={len(self._known)}>"

    @property
    def is_open(self) -> bool:
        """Whether the leader knows the session. Only then can it take acknowledgements."""
        return self._epoch != INITIAL_EPOCH

    def fill_fetch(
        self,
        request: ShareFetchRequest,
        wanted: Mapping[TopicPartition, TopicId],
        acknowledged: Batches,
    ) -> None:
        """Add to a fetch the changes of the session's partitions, and acknowledgements.

        Acknowledgements of partitions that are not in ``wanted`` are left out.
        """
        request.share_session_epoch = self._epoch
        self._asked = dict(wanted)
        self._ids.update(wanted)
        self._places.update(
            {(topic_id, where.partition): where for where, topic_id in wanted.items()}
        )
        topics: dict[TopicId, share_fetch.FetchTopic] = {}
        for where, topic_id in wanted.items():
            if self._known.get(where) != topic_id or where in acknowledged:
                topic = topics.setdefault(topic_id, share_fetch.FetchTopic(topic_id=topic_id))
                batches = [
                    share_fetch.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=types
                    )
                    for first, last, types in acknowledged.get(where, ())
                ]
                topic.partitions.append(
                    share_fetch.FetchPartition(
                        partition_index=where.partition, acknowledgement_batches=batches
                    )
                )
        request.topics = list(topics.values())
        forgotten: dict[TopicId, share_fetch.ForgottenTopic] = {}
        for where, topic_id in self._known.items():
            if wanted.get(where) != topic_id:
                forgotten.setdefault(
                    topic_id, share_fetch.ForgottenTopic(topic_id=topic_id)
                ).partitions.append(where.partition)
        request.forgotten_topics_data = list(forgotten.values())

    def fill_acknowledge(
        self, request: ShareAcknowledgeRequest, acknowledged: Batches, *, is_final: bool = False
    ) -> None:
        """Add acknowledgements to a request.

        With ``is_final`` the request ends the session, and all records acquired in it are released.
        """
        request.share_session_epoch = FINAL_EPOCH if is_final else self._epoch
        topics: dict[TopicId, share_acknowledge.AcknowledgeTopic] = {}
        for where, batches in acknowledged.items():
            topic_id = self._ids[where]
            topic = topics.setdefault(
                topic_id, share_acknowledge.AcknowledgeTopic(topic_id=topic_id)
            )
            filled = [
                share_acknowledge.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=types
                )
                for first, last, types in batches
            ]
            topic.partitions.append(
                share_acknowledge.AcknowledgePartition(
                    partition_index=where.partition, acknowledgement_batches=filled
                )
            )
        request.topics = list(topics.values())

    def accept(self) -> None:
        """Note that the leader accepted the last request."""
        if self._asked is not None:
            self._known, self._asked = dict(self._asked), None
        self._epoch = next_epoch(self._epoch)

    def place_of(self, topic_id: TopicId, partition: int) -> TopicPartition | None:
        """Return the partition that a response identifies by topic id and number.

        Return None if the session never had it.
        """
        return self._places.get((topic_id, partition))
