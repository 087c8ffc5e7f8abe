"""Sends a broker's requests to share coordinators (KIP-932).

This node's own coordinator is called directly, others by requests. Decides which node is asked,
what goes into one request, and when to retry. The share coordinator decides the meaning of states.

The coordinator of a state is the leader of its partition of ``__share_group_state``. The topic is
created when the first state needs it. A question is a request about one state. While a request
about one group is on its way to a broker, further questions about that group wait and go out
together in the next request. If another coordinator or a later attempt may succeed, an error is
retried after a pause that doubles. After ``MAX_ATTEMPTS`` the caller gets the error.

A summary waits for no other question, because it changes nothing. A later leader's read ends the
reads and writes of earlier leaders, because the coordinator fences them as soon as it has the read.
Reads have a connection of their own. On one connection responses come in order, so a read would
wait for writes, which wait for replicas.

Invariants: except for summaries, one question about a state is in progress at a time, and the next
waits for its end. So writes arrive in the order in which they were made. Every question ends once.
At most ``MAX_QUESTIONS`` wait. One more gets COORDINATOR_NOT_AVAILABLE at once.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from log_service.broker.peers import destination_of
from log_service.broker.requests.call import StartTask
from log_service.broker.share.state_protocol import OnDone, OnState
from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.java_hashing import hashed_partition
from log_service.common.timers import TimerQueue
from log_service.common.types import SHARE_GROUP_STATE_TOPIC, NodeId
from log_service.coordinator.share.share_coordinator import ShareStateWrite
from log_service.coordinator.share.share_state import FIRST_LEADER_EPOCH, ShareKey
from log_service.coordinator.share.state_messages import state_read, state_summarized, write_request
from log_service.coordinator.share_state_service import ShareStateService, coordinator_key
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages import delete_share_group_state as deleting
from log_service.protocol.messages import initialize_share_group_state as initializing
from log_service.protocol.messages import read_share_group_state as reading
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from log_service.rpc.connection import Destination
    from log_service.rpc.pool import ConnectionPool

FIRST_PAUSE_MS, LONGEST_PAUSE_MS, MAX_ATTEMPTS = 100, 5_000, 10
"""The pauses between attempts, and the number of attempts.

Together they take about twenty seconds, longer than it takes to replace a coordinator that died.
"""
JITTER = 0.2
MAX_QUESTIONS = 100_000
MAX_PARTITIONS_PER_REQUEST = 1_000
PURPOSE, PURPOSE_OF_READS = "share states", "reads of share states"

MENDED_BY_TIME = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """One of the five APIs of share coordinators.

    ``request`` and ``topic`` build its request, and ``ask_here`` asks this node's own coordinator.
    ``reply_of`` returns the part of a partition's result that the caller gets. ``purpose`` is that
    of the connection for its requests.
    """

    request: Callable[..., Any]
    topic: Callable[..., Any]
    response_type: type[Any]
    ask_here: Callable[[ShareStateService, Any, Callable[[Any], None]], None]
    reply_of: Callable[[Any], Any]
    purpose: str = PURPOSE


@dataclass(slots=True, eq=False)
class _Question:
    """One request about one state. ``asked`` is the part of the request for its partition."""

    kind: _Kind
    key: ShareKey
    asked: Any
    on_done: Callable[[Any], None]
    failed_count: int = 0
    is_under_way: bool = False
    is_over: bool = False


Route = tuple["Destination", _Kind, str]
"""The destination of questions, their kind and their group."""


class ShareStateRequests:
    """The ``SharePersister`` of a node.

    ``here`` holds the states that this node coordinates itself. ``create_topic`` creates their
    topic.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        listener_name: str,
        clock: Clock,
        rng: Random,
        timers: TimerQueue,
        image: Callable[[], MetadataImage],
        pool: "Callable[[], ConnectionPool]",
        start_task: StartTask,
        here: ShareStateService,
        create_topic: Callable[[], Any],
    ) -> None:
        self._node_id = node_id
        self._listener_name = listener_name
        self._clock = clock
        self._rng = rng
        self._timers = timers
        self._image = image
        self._pool = pool
        self._start_task = start_task
        self._here = here
        self._create_topic = create_topic
        self._lines: dict[ShareKey, deque[_Question]] = {}
        self._question_count = 0
        self._working: set[ShareKey] = set()
        self._waiting: dict[Route, list[_Question]] = {}
        self._is_creating = False

    def __repr__(self) -> str:
        return f"<ShareStateRequests questions={self._question_count} routes={len(self._waiting)}>"

    @property
    def asked_keys(self) -> Collection[ShareKey]:
        """The share partitions with a question that has not ended. Summaries do not count."""
        return self._lines.keys()

    # Asking

    def initialize(
        self, key: ShareKey, *, state_epoch: int, start_offset: int, on_done: OnDone
    ) -> None:
        """See ``SharePersister``."""
        asked = initializing.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        self._ask(_Question(INITIALIZE, key, asked, on_done))

    def read(self, key: ShareKey, *, leader_epoch: int, on_done: OnState) -> None:
        """See ``SharePersister``."""
        self._ask(
            _Question(
                READ,
                key,
                reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch),
                on_done,
            )
        )

    def write(self, key: ShareKey, write: ShareStateWrite, *, on_done: OnDone) -> None:
        """See ``SharePersister``."""
        self._ask(_Question(WRITE, key, write_request(key.partition, write), on_done))

    def delete(self, key: ShareKey, *, on_done: OnDone) -> None:
        """See ``SharePersister``."""
        self._ask(_Question(DELETE, key, deleting.PartitionData(partition=key.partition), on_done))

    def summarize(self, key: ShareKey, *, leader_epoch: int, on_done: OnState) -> None:
        """See ``SharePersister``."""
        self._ask(
            _Question(
                SUMMARIZE,
                key,
                summarizing.PartitionData(partition=key.partition, leader_epoch=leader_epoch),
                on_done,
            )
        )

    def _ask(self, question: _Question) -> None:
        if self._question_count >= MAX_QUESTIONS:
            text = f"{MAX_QUESTIONS} questions to share coordinators wait already"
            question.on_done(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text))
            return
        self._question_count += 1
        if question.kind is SUMMARIZE:
            self._send(question)
            return
        self._lines.setdefault(question.key, deque()).append(question)
        if question.kind is READ:
            self._end_older(question)
        self._work_off(question.key)

    def _end_older(self, read: _Question) -> None:
        """End the reads and writes of leaders of an epoch before that of ``read``.

        Those in progress may still arrive. The coordinator has stored them before the read, or
        refuses them.
        """
        line, epoch = self._lines[read.key], read.asked.leader_epoch
        older = [
            each
            for each in line
            if each.kind in {READ, WRITE} and FIRST_LEADER_EPOCH <= each.asked.leader_epoch < epoch
        ]
        text = f"a leader of epoch {epoch} reads {read.key}"
        for each in reversed(older):  # the first one last, because the next is sent at its end
            self._end(each, KafkaError(ErrorCode.FENCED_LEADER_EPOCH, text))

    def _work_off(self, key: ShareKey) -> None:
        """Send the first question about a state, and the next ones for as long as they end at once.

        The queue may be empty already, because ``on_done`` may ask another question that ends at
        once.
        """
        line = self._lines.get(key)
        if line is None or key in self._working:
            return
        self._working.add(key)
        while line and not line[0].is_under_way:
            line[0].is_under_way = True
            self._send(line[0])
        self._working.discard(key)
        if not line:
            del self._lines[key]

    def _end(self, question: _Question, reply_of: Any) -> None:
        """End a question with its result, unless a later leader's read has ended it."""
        if question.is_over:
            return
        question.is_over = True
        if question.kind is not SUMMARIZE:
            self._lines[question.key].remove(question)
        self._question_count -= 1
        question.on_done(reply_of)
        self._work_off(question.key)

    def _fail(self, question: _Question, error: KafkaError) -> None:
        """Ask again after a pause if that may help, else end the question with the error."""
        if question.is_over:
            return
        question.failed_count += 1
        if error.code not in MENDED_BY_TIME or question.failed_count >= MAX_ATTEMPTS:
            self._end(question, error)
            return
        pause_ms = min(
            FIRST_PAUSE_MS << (question.failed_count - 1), LONGEST_PAUSE_MS
        ) * self._rng.uniform(1 - JITTER, 1 + JITTER)
        self._timers.schedule(
            self._clock.monotonic_ms() + int(pause_ms), partial(self._send, question)
        )

    # Routing

    def _send(self, question: _Question) -> None:
        if question.is_over:
            return
        image = self._image()
        topic = image.topics.by_name.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            self._create()
            self._fail(
                question,
                KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    f"{SHARE_GROUP_STATE_TOPIC} is being created",
                ),
            )
            return
        partition = hashed_partition(coordinator_key(question.key), len(topic.partitions))
        registration = topic.partitions.get(partition)
        if registration is not None and registration.leader == self._node_id:
            self._ask_here(question)
            return
        destination = (
            None
            if registration is None
            else destination_of(
                image, registration.leader, self._listener_name, question.kind.purpose
            )
        )
        if destination is None:
            text = (
                f"partition {partition} of {SHARE_GROUP_STATE_TOPIC} has no leader that can be"
                " reached"
            )
            self._fail(question, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text))
            return
        self._send_there(destination, question)

    def _create(self) -> None:
        if not self._is_creating:
            self._is_creating = True
            self._start_task(self._create_once)

    async def _create_once(self) -> None:
        try:
            await self._create_topic()
        finally:
            self._is_creating = False

    def _ask_here(self, question: _Question) -> None:
        kind = question.kind
        kind.ask_here(self._here, _request([question]), partial(self._settle, [question]))

    def _send_there(self, destination: "Destination", question: _Question) -> None:
        route = (destination, question.kind, question.key.group_id)
        waiting = self._waiting.get(route)
        if waiting is None:
            self._waiting[route] = [question]
            self._start_task(self._send_all, route)
        else:
            waiting.append(question)

    async def _send_all(self, route: Route) -> None:
        """Send all waiting questions of a route (coordinator, API, group), until none are left."""
        destination, kind, _ = route
        try:
            while waiting := self._waiting[route]:
                self._waiting[route] = []
                waiting = [question for question in waiting if not question.is_over]
                for start in range(0, len(waiting), MAX_PARTITIONS_PER_REQUEST):
                    questions = waiting[start : start + MAX_PARTITIONS_PER_REQUEST]
                    try:
                        response = await self._pool().request(
                            destination, _request(questions), kind.response_type
                        )
                    except KafkaError as error:
                        for question in questions:
                            self._fail(question, error)
                    else:
                        self._settle(questions, response)
        finally:
            del self._waiting[route]

    def _settle(self, questions: Sequence[_Question], response: Any) -> None:
        results = {
            (topic.topic_id, result.partition): result
            for topic in response.results
            for result in topic.partitions
        }
        for question in questions:
            result = results.get((question.key.topic_id, question.key.partition))
            if result is None:
                self._fail(
                    question,
                    KafkaError(
                        ErrorCode.UNKNOWN_SERVER_ERROR,
                        f"a share coordinator did not answer about {question.key}",
                    ),
                )
            elif result.error_code:
                self._fail(
                    question,
                    KafkaError(ErrorCode.of(result.error_code), result.error_message or ""),
                )
            else:
                self._end(question, question.kind.reply_of(result))


def _request(questions: Sequence[_Question]) -> Any:
    """Build one request from questions of the same API and group.

    Several summaries of one state are sent as one.
    """
    kind = questions[0].kind
    topics: dict[UUID, dict[int, Any]] = {}
    for question in questions:
        topics.setdefault(question.key.topic_id, {})[question.key.partition] = question.asked
    asked_topics = [
        kind.topic(topic_id=topic_id, partitions=list(asked.values()))
        for topic_id, asked in topics.items()
    ]
    return kind.request(group_id=questions[0].key.group_id, topics=asked_topics)


def _nothing(_result: Any) -> None:
    """Return None, because only success is reported."""


INITIALIZE = _Kind(
    initializing.InitializeShareGroupStateRequest,
    initializing.InitializeStateData,
    initializing.InitializeShareGroupStateResponse,
    ShareStateService.initialize,
    _nothing,
)
READ = _Kind(
    reading.ReadShareGroupStateRequest,
    reading.ReadStateData,
    reading.ReadShareGroupStateResponse,
    ShareStateService.read,
    state_read,
    PURPOSE_OF_READS,
)
WRITE = _Kind(
    writing.WriteShareGroupStateRequest,
    writing.WriteStateData,
    writing.WriteShareGroupStateResponse,
    ShareStateService.write,
    _nothing,
)
DELETE = _Kind(
    deleting.DeleteShareGroupStateRequest,
    deleting.DeleteStateData,
    deleting.DeleteShareGroupStateResponse,
    ShareStateService.delete,
    _nothing,
)
SUMMARIZE = _Kind(
    summarizing.ReadShareGroupStateSummaryRequest,
    summarizing.ReadStateSummaryData,
    summarizing.ReadShareGroupStateSummaryResponse,
    ShareStateService.read_summary,
    state_summarized,
    PURPOSE_OF_READS,
)
