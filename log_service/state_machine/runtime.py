"""Drives one state machine over one log in one epoch: it decides, appends, replays and replies.

A reply is sent when its records are committed. The runtime decides in which order records, timers
and replies take effect, and what happens when the log refuses an append. It knows neither the
subject of the machine's decisions nor how a log is loaded. Its owner begins with a machine that has
replayed everything, and closes the runtime when the epoch is over.

- ``_decide`` handles a refused append. It undoes changes of soft state, and the request gets the
  log's error. The machine can decide further requests.
- ``close`` handles a lost epoch. Every waiting request gets the reason, and no timer fires any
  more.
- ``_expire`` handles a high watermark that does not move, because too few replicas are in sync. If
  ``reply_timeout_ms`` is set, a reply waits no longer than that, and its request gets
  REQUEST_TIMED_OUT. The appended records stay, and may be committed later.
- ``_take_over`` handles an appended record that cannot be replayed. The machine then lacks records
  of its log, so the node ends.
- ``_on_timer`` handles a late timer that would remove a silent peer. The process was stalled, so it
  first reads for a while, because messages of the peer may be unread.
- ``on_high_watermark`` handles a reply or an announcement whose receiver raises. The node ends,
  too. The request that is being decided at that moment is another one, and is not affected.

Invariants:

- A record is replayed exactly once, right after its append.
- A reply, also of a read, is sent when the high watermark has passed everything that was appended
  before it. Replies are sent in the order of the decisions.
- A request is replied to exactly once, unless its sender gives up with ``forget``.
- A timer whose decision is refused fires again after ``RETRY_MS``. The refusals are logged seldom,
  and their end is logged, too.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.timers import Timer, TimerQueue
from log_service.state_machine.decision import (
    CancelTimer,
    Decision,
    InTransaction,
    ReplayContext,
    SetTimer,
)
from log_service.state_machine.stalls import Stalls

logger = logging.getLogger(__name__)

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
RETRY_MS = 1_000
OnReply = Callable[[Any], None]
Refuse = Callable[[KafkaError], Any]
"""Makes the response of a request that is refused."""


class _HeldReply(NamedTuple):
    """A reply that waits until the high watermark has reached ``end_offset``."""

    end_offset: int
    token: Hashable
    response: Any
    decided_ms: int


class StateLog(Protocol[R_contra]):
    """The log of one machine, which this node leads in one epoch."""

    @property
    def high_watermark(self) -> int:
        """The offset below which records are committed, as far as the leader knows."""

    def append(self, records: Sequence[R_contra], wall_ms: int, /) -> int:
        """Append records as one batch and return the log end offset after them.

        Raises:
            KafkaError: nothing was appended.
        """


class TransactionalLog(StateLog[R_contra], Protocol[R_contra]):
    """A log to which transactions of producers write, too."""

    def append_in_transaction(
        self, records: Sequence[R_contra], wall_ms: int, transaction: InTransaction, /
    ) -> int:
        """Append records as one batch of a producer's transaction.

        Returns and raises as ``append``.
        """


class StateMachine(Protocol[R]):
    """A state machine, whose methods fill a ``Decision``.

    Its replicated state changes only in ``replay``.
    """

    def replay(self, record: R, context: ReplayContext, /) -> None:
        """Apply one record of the log to the state."""

    def on_timer(self, key: Hashable, decision: Decision[R], /) -> None:
        """Decide what follows from a timer that became due."""


def _as_one(records: Sequence[R]) -> Iterable[Sequence[R]]:
    return (records,)


def _unheard(announcement: object) -> None:
    raise AssertionError(f"{announcement!r} is announced, and no one listens")


def _no_silence(_key: Hashable) -> bool:
    return False


class Runtime(Generic[R]):
    """One machine over one log in one epoch.

    ``appended_end`` is the end of the records that the machine has replayed. ``split`` divides the
    records of a decision into independent batches. By default a decision is one batch.
    ``reply_timeout_ms`` bounds how long a reply waits for the high watermark. None means no bound.
    ``on_announcement`` gets the machine's announcements. An announcement waits for the high
    watermark without a bound, and is lost if the epoch ends. ``is_about_silence`` tells which
    timers remove silent peers. After a stall of the process, these timers wait as long as
    ``stalls`` says. ``name`` is the machine's name in log lines.
    """

    def __init__(
        self,
        machine: StateMachine[R],
        log: StateLog[R],
        *,
        clock: Clock,
        timers: TimerQueue,
        appended_end: int,
        split: Callable[[Sequence[R]], Iterable[Sequence[R]]] = _as_one,
        reply_timeout_ms: int | None = None,
        on_announcement: Callable[[Any], None] = _unheard,
        is_about_silence: Callable[[Hashable], bool] = _no_silence,
        stalls: Stalls | None = None,
        name: str = "the state machine",
    ) -> None:
        self._name = name
        self._machine = machine
        self._is_about_silence = is_about_silence
        self._stalls = stalls
        self._log = log
        self._clock = clock
        self._timers = timers
        self._appended_end = appended_end
        self._split = split
        self._reply_timeout_ms = reply_timeout_ms
        self._on_announcement = on_announcement
        self._held_announcements: deque[tuple[int, object]] = deque()
        self._expiry: Timer | None = None
        self._is_closed = False
        self._tokens = count(1)
        self._requests: dict[Hashable, tuple[OnReply, Refuse]] = {}
        self._held_replies: deque[_HeldReply] = deque()
        self._pending_timers: dict[Hashable, Timer] = {}
        self._refused_timers: set[Hashable] = set()
        self._quiet = QuietLogger(logger, clock.monotonic_ms)

    def __repr__(self) -> str:
        return (
            f"<Runtime of {self._machine!r} end={self._appended_end} requests={len(self._requests)}"
            f" closed={self._is_closed}>"
        )

    @property
    def waiting_requests(self) -> frozenset[Hashable]:
        """The ids of the requests without a reply."""
        return frozenset(self._requests)

    @property
    def timer_deadlines(self) -> dict[Hashable, int]:
        """The deadlines of the pending timers in milliseconds, by key."""
        return {key: timer.deadline_ms for key, timer in self._pending_timers.items()}

    def ask(
        self, decide: Callable[[Decision[R], Hashable], None], on_reply: OnReply, refuse: Refuse
    ) -> Hashable:
        """Have the machine decide on one request, and return an id of the request.

        ``on_reply`` is called once, now or later, unless ``forget`` drops the request. It gets the
        response, or the result of ``refuse`` for the error.
        """
        token = next(self._tokens)
        self._requests[token] = (on_reply, refuse)
        try:
            self._decide(decide, token)
        except KafkaError as error:
            if self._requests.pop(token, None) is not None:
                on_reply(refuse(error))
        except BaseException:
            self._requests.pop(token, None)
            raise
        return token

    def ask_to_append(
        self,
        append: Callable[[], int],
        replay: Callable[[], None],
        on_reply: OnReply,
        refuse: Refuse,
    ) -> None:
        """Append something other than the machine's records, and reply None once it is committed.

        ``append`` returns the log end offset after it, or raises KafkaError. ``replay`` then
        applies it to the machine. ``on_reply`` and ``refuse`` are those of ``ask``.
        """

        def decide(decision: Decision[R], token: Hashable) -> None:
            self._appended_end = append()
            self._take_over(replay)
            decision.reply(token, None)

        self.ask(decide, on_reply, refuse)

    def forget(self, token: Hashable) -> None:
        """Drop the reply to a request whose sender has given up. The decision remains in effect."""
        self._requests.pop(token, None)

    def decide_alone(self, decide: Callable[[Decision[R]], None]) -> None:
        """Have the machine decide on something that no request waits for.

        Raises:
            KafkaError: the decision was refused and has changed nothing.
        """
        self._decide(decide)

    def on_high_watermark(self) -> None:
        """Send the replies and announcements whose records are now below the high watermark."""
        held, announcements = self._held_replies, self._held_announcements
        if not held and not announcements:
            return
        high_watermark = self._log.high_watermark
        try:
            while held and held[0].end_offset <= high_watermark:
                _, token, response, _ = held.popleft()
                request = self._requests.pop(token, None)
                if request is not None:
                    request[0](response)
            while announcements and announcements[0][0] <= high_watermark:
                self._on_announcement(announcements.popleft()[1])
        except Exception as error:  # noqa: BLE001 - a bug of a room: it ends the node, not the request that is being decided on
            self._end_node(error)

    def fire_due(self) -> None:
        """Fire all due timers, so that they take effect before the machine's next request."""
        now_ms = self._clock.monotonic_ms()
        for key, timer in list(self._pending_timers.items()):
            if timer.is_pending and timer.deadline_ms <= now_ms:
                timer.cancel()
                self._on_timer(key)

    def fire_if_due(self, key: Hashable) -> None:
        """Fire the timer of ``key`` if it is due. The cost is the same for any number of timers."""
        timer = self._pending_timers.get(key)
        if timer is not None and timer.deadline_ms <= self._clock.monotonic_ms():
            timer.cancel()
            self._on_timer(key)

    def close(self, error: KafkaError) -> None:
        """End the epoch: refuse every waiting request with ``error``, and cancel all timers."""
        self._is_closed = True
        for timer in self._pending_timers.values():
            timer.cancel()
        self._pending_timers.clear()
        if self._expiry is not None:
            self._expiry.cancel()
        self._held_replies.clear()
        self._held_announcements.clear()
        for on_reply, refuse in self.take_requests():
            on_reply(refuse(error))

    def take_requests(self) -> list[tuple[OnReply, Refuse]]:
        """Remove and return the callbacks of all requests without a reply."""
        requests, self._requests = self._requests, {}
        return list(requests.values())

    # One decision

    def _decide(self, decide: Callable[..., None], *arguments: Hashable) -> None:
        decision: Decision[R] = Decision(self._clock.monotonic_ms(), self._clock.wall_ms())
        try:
            decide(decision, *arguments)
            if decision.records:
                self._append(decision)
        # a bug of the machine costs the request, and the next one finds the state that the log has
        except BaseException:
            decision.take_back()
            raise
        if self._is_closed:
            return
        for timer in decision.timers:
            self._perform_timer(timer)
        for reply_to, response in decision.replies:
            self._held_replies.append(
                _HeldReply(self._appended_end, reply_to, response, decision.now_ms)
            )
        self._held_announcements.extend(
            (self._appended_end, each) for each in decision.announcements
        )
        self.on_high_watermark()
        if self._held_replies and self._expiry is None and self._reply_timeout_ms is not None:
            self._expire_later(self._reply_timeout_ms)

    def _expire_later(self, timeout_ms: int) -> None:
        self._expiry = self._timers.schedule(
            self._held_replies[0].decided_ms + timeout_ms, partial(self._expire, timeout_ms)
        )

    def _expire(self, timeout_ms: int) -> None:
        """Refuse the requests whose replies have waited too long.

        Schedule the next check for when the next reply has waited too long.
        """
        self._expiry = None
        held, now_ms = self._held_replies, self._clock.monotonic_ms()
        while held and held[0].decided_ms + timeout_ms <= now_ms:
            end_offset, token, _, _ = held.popleft()
            request = self._requests.pop(token, None)
            if request is not None:
                text = (
                    f"the high watermark is {self._log.high_watermark} after {timeout_ms} ms, not"
                    f" yet {end_offset}"
                )
                on_reply, refuse = request
                on_reply(refuse(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)))
        if held and not self._is_closed:
            self._expire_later(timeout_ms)

    def _append(self, decision: Decision[R]) -> None:
        transaction = decision.transaction
        for records in self._split(decision.records):
            if transaction is None:
                end_offset = self._log.append(records, decision.wall_ms)
            else:
                end_offset = cast("TransactionalLog[R]", self._log).append_in_transaction(
                    records, decision.wall_ms, transaction
                )
            self._appended_end = end_offset
            self._take_over(partial(self._replay, records, end_offset - len(records), transaction))

    def _replay(
        self, records: Sequence[R], base_offset: int, transaction: InTransaction | None
    ) -> None:
        producer = () if transaction is None else transaction[:2]
        for offset, record in enumerate(records, base_offset):
            self._machine.replay(record, ReplayContext(offset, *producer))

    def _take_over(self, replay: Callable[[], None]) -> None:
        """Have the machine replay the appended records.

        If it fails, the machine lacks records of its log, and the node ends.
        """
        try:
            replay()
        except Exception as error:
            self._end_node(error)
            raise

    def _end_node(self, error: Exception) -> None:
        # The error is raised in a timer, because an error in a timer ends the node.
        self._timers.schedule(self._clock.monotonic_ms(), partial(_raise, error))

    def _perform_timer(self, timer: SetTimer | CancelTimer) -> None:
        old = self._pending_timers.pop(timer.key, None)
        if old is not None:
            old.cancel()
        if isinstance(timer, SetTimer):
            key = timer.key
            self._pending_timers[key] = self._timers.schedule(
                timer.deadline_ms, lambda: self._on_timer(key)
            )
        else:
            self._refused_timers.discard(timer.key)

    def _on_timer(self, key: Hashable) -> None:
        due_ms, now_ms = self._pending_timers.pop(key).deadline_ms, self._clock.monotonic_ms()
        acted_on_at_ms = (
            self._stalls.acted_on_at_ms(due_ms, now_ms)
            if self._stalls is not None and self._is_about_silence(key)
            else now_ms
        )
        if acted_on_at_ms > now_ms:
            self._perform_timer(SetTimer(key, acted_on_at_ms))
            return
        try:
            self._decide(lambda decision: self._machine.on_timer(key, decision))
        except KafkaError as error:
            text = "%s could not act on %s (%s); it tries again every %d ms"
            self._quiet.warning("refused", text, self._name, key, error, RETRY_MS)
            if not self._is_closed:
                self._perform_timer(SetTimer(key, self._clock.monotonic_ms() + RETRY_MS))
                self._refused_timers.add(key)
        else:
            self._note_success(key)

    def _note_success(self, key: Hashable) -> None:
        if key in self._refused_timers:
            self._refused_timers.remove(key)
            if not self._refused_timers:
                self._quiet.info("over", "%s has acted on all that was refused before", self._name)


def _raise(error: Exception) -> None:
    raise error
