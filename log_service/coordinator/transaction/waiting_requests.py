"""Requests that came while the transaction before theirs was ending: they wait for its end, and are asked again.

Kafka's coordinator refuses such a request with CONCURRENT_TRANSACTIONS, and the client asks again after a pause of 20 to 100 ms. The
markers are written in far less. So the node asks again in the client's place as soon as the last marker is written. The client hears of the
refusal only where that takes longer than its patience; a transaction that has been ending for longer is not waited for at all.

Invariant: each request is replied to once, with what it was told last. Where nothing says that the transaction has ended, it is asked a
last time when its patience is over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode
from log_service.common.timers import Timer, TimerQueue
from log_service.state_machine.runtime import OnReply

Ask = Callable[[OnReply], None]
"""Asks the coordinator once; the outcome comes once, now or later."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request, and the timer that ends its patience."""

    ask: Ask
    on_reply: OnReply
    timer: Timer


class WaitingRequests:
    """The requests that wait, by transactional id.

    ``is_ending_soon`` says whether a transaction that is ending is worth waiting for; ``on_wait`` is called where a request begins to wait.
    """

    def __init__(self, *, clock: Clock, timers: TimerQueue, is_ending_soon: Callable[[str], bool], on_wait: Callable[[], None]) -> None:
        self._clock = clock
        self._timers = timers
        self._is_ending_soon = is_ending_soon
        self._on_wait = on_wait
        self._waiting: dict[str, list[_Waiting]] = {}

    def __repr__(self) -> str:
        return f"<WaitingRequests {sum(map(len, self._waiting.values()))}>"

    def ask(self, transactional_id: str, ask: Ask, on_reply: OnReply, patience_ms: int) -> None:
        """Ask, and pass on what is said: an error code, or a response with one. CONCURRENT_TRANSACTIONS is passed on after the patience."""
        self._ask_until(self._clock.monotonic_ms() + patience_ms, transactional_id, ask, on_reply)

    def is_awaited(self, transactional_id: str) -> bool:
        """Whether a request waits for the end of this id's transaction."""
        return transactional_id in self._waiting

    def resume(self, transactional_id: str) -> None:
        """Ask again what waits for the end of a transaction, in the order in which it came."""
        for waiting in self._waiting.pop(transactional_id, ()):
            deadline_ms = waiting.timer.deadline_ms
            waiting.timer.cancel()
            self._ask_until(deadline_ms, transactional_id, waiting.ask, waiting.on_reply)

    def _ask_until(self, deadline_ms: int, transactional_id: str, ask: Ask, on_reply: OnReply) -> None:
        def hear(outcome: Any) -> None:
            is_refused = _code_of(outcome) is ErrorCode.CONCURRENT_TRANSACTIONS
            if is_refused and self._clock.monotonic_ms() < deadline_ms and self._is_ending_soon(transactional_id):
                waiting = _Waiting(ask, on_reply, self._timers.schedule(deadline_ms, lambda: self._give_up(transactional_id, waiting)))
                self._waiting.setdefault(transactional_id, []).append(waiting)
                self._on_wait()
            else:
                on_reply(outcome)

        ask(hear)

    def _give_up(self, transactional_id: str, waiting: _Waiting) -> None:
        """Ask a last time."""
        line = self._waiting[transactional_id]
        line.remove(waiting)
        if not line:
            del self._waiting[transactional_id]
        waiting.ask(waiting.on_reply)


def _code_of(outcome: Any) -> ErrorCode:
    return outcome if isinstance(outcome, ErrorCode) else ErrorCode.of(outcome.error_code)
