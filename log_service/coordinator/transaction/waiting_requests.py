"""Requests that wait while the previous transaction of their id is ending, and are then retried.

Kafka's coordinator refuses such a request with CONCURRENT_TRANSACTIONS, and the client retries
after a pause of 20 to 100 ms. Markers are written much faster. So this node retries on behalf of
the client as soon as the last marker is written. The client gets the refusal only if this takes
longer than ``patience_ms``. If a transaction has been ending for a long time already, requests do
not wait for it.

Invariant: Each request gets one reply, which is the coordinator's last response. If no end of the
transaction is reported, the request is retried once after ``patience_ms``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode
from log_service.common.timers import Timer, TimerQueue
from log_service.state_machine.runtime import OnReply

Ask = Callable[[OnReply], None]
"""Sends the request to the coordinator once. The outcome is reported once, now or later."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A waiting request, with the timer that ends its wait."""

    ask: Ask
    on_reply: OnReply
    timer: Timer


class WaitingRequests:
    """The waiting requests by transactional id.

    ``is_ending_soon`` returns whether a transaction is expected to end soon. ``on_wait`` is called
    when a request begins to wait.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerQueue,
        is_ending_soon: Callable[[str], bool],
        on_wait: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._is_ending_soon = is_ending_soon
        self._on_wait = on_wait
        self._waiting: dict[str, list[_Waiting]] = {}

    def __repr__(self) -> str:
        return f"<WaitingRequests {sum(map(len, self._waiting.values()))}>"

    def ask(self, transactional_id: str, ask: Ask, on_reply: OnReply, patience_ms: int) -> None:
        """Send a request by ``ask``, and pass its outcome to ``on_reply``.

        The outcome is an error code, or a response with an error code.
        While the previous transaction is expected to end soon, CONCURRENT_TRANSACTIONS is passed on
        only after ``patience_ms``.
        """
        self._ask_until(self._clock.monotonic_ms() + patience_ms, transactional_id, ask, on_reply)

    def is_awaited(self, transactional_id: str) -> bool:
        """Whether a request waits for the end of this id's transaction."""
        return transactional_id in self._waiting

    def resume(self, transactional_id: str) -> None:
        """Retry the requests that wait for the end of a transaction, in their order of arrival."""
        for waiting in self._waiting.pop(transactional_id, ()):
            deadline_ms = waiting.timer.deadline_ms
            waiting.timer.cancel()
            self._ask_until(deadline_ms, transactional_id, waiting.ask, waiting.on_reply)

    def _ask_until(
        self, deadline_ms: int, transactional_id: str, ask: Ask, on_reply: OnReply
    ) -> None:
        def on_outcome(outcome: Any) -> None:
            is_refused = _code_of(outcome) is ErrorCode.CONCURRENT_TRANSACTIONS
            if (
                is_refused
                and self._clock.monotonic_ms() < deadline_ms
                and self._is_ending_soon(transactional_id)
            ):
                waiting = _Waiting(
                    ask,
                    on_reply,
                    self._timers.schedule(
                        deadline_ms, lambda: self._give_up(transactional_id, waiting)
                    ),
                )
                self._waiting.setdefault(transactional_id, []).append(waiting)
                self._on_wait()
            else:
                on_reply(outcome)

        ask(on_outcome)

    def _give_up(self, transactional_id: str, waiting: _Waiting) -> None:
        """Send a request for the last time, because it has waited as long as it may."""
        line = self._waiting[transactional_id]
        line.remove(waiting)
        if not line:
            del self._waiting[transactional_id]
        waiting.ask(waiting.on_reply)


def _code_of(outcome: Any) -> ErrorCode:
    return outcome if isinstance(outcome, ErrorCode) else ErrorCode.of(outcome.error_code)
