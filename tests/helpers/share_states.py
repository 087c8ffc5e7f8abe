"""A share coordinator in memory that stores, fences and refuses as the real one.

It delays its responses on request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from log_service.broker.share.led_share_partition import OnSafe
from log_service.broker.share.state_protocol import OnDone, OnState
from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.share.in_flight import DeadLetterRange
from log_service.coordinator.share.share_coordinator import ShareStateWrite
from log_service.coordinator.share.share_state import ShareKey, ShareState, combined
from log_service.replication.partition import Partition


@dataclass
class MemoryPersister:
    """Stores share states by key.

    ``is_holding`` keeps responses until ``let_go``. ``refusals`` refuse the next requests, one
    each.
    """

    states: dict[ShareKey, ShareState] = field(default_factory=dict)
    writes: list[tuple[ShareKey, ShareStateWrite]] = field(default_factory=list)
    is_holding: bool = False
    refusals: list[ErrorCode] = field(default_factory=list)
    _held: list[Callable[[], None]] = field(default_factory=list)

    def let_go(self) -> None:
        self.is_holding = False
        held, self._held = self._held, []
        for each in held:
            each()

    def initialize(
        self, key: ShareKey, *, state_epoch: int, start_offset: int, on_done: OnDone
    ) -> None:
        self.states[key] = ShareState(
            snapshot_epoch=0, state_epoch=state_epoch, leader_epoch=0, start_offset=start_offset
        )
        self._tell(on_done, None)

    def read(self, key: ShareKey, *, leader_epoch: int, on_done: OnState) -> None:
        state = self.states.get(key)
        refusal = self._refusal(state, leader_epoch, -1)
        if refusal is None and state is not None:
            state = self.states[key] = replace(
                state, leader_epoch=max(leader_epoch, state.leader_epoch)
            )
        self._tell(on_done, refusal or state)

    def write(self, key: ShareKey, write: ShareStateWrite, *, on_done: OnDone) -> None:
        state = self.states.get(key)
        refusal = self._refusal(state, write.leader_epoch, write.state_epoch)
        if refusal is None and state is not None:
            self.writes.append((key, write))
            batches = combined([*state.batches, *write.batches], write.start_offset)
            self.states[key] = replace(state, start_offset=write.start_offset, batches=batches)
        self._tell(on_done, refusal)

    def delete(self, key: ShareKey, *, on_done: OnDone) -> None:
        self.states.pop(key, None)
        self._tell(on_done, None)

    def summarize(self, key: ShareKey, *, leader_epoch: int, on_done: OnState) -> None:
        self.read(key, leader_epoch=-1, on_done=on_done)

    def _refusal(
        self, state: ShareState | None, leader_epoch: int, state_epoch: int
    ) -> KafkaError | None:
        if self.refusals:
            return KafkaError(self.refusals.pop(0), "refused by the test")
        if state is None:
            return KafkaError(ErrorCode.INVALID_REQUEST, "not initialized")
        if -1 < leader_epoch < state.leader_epoch:
            return KafkaError(ErrorCode.FENCED_LEADER_EPOCH, "a later leader has read")
        if -1 < state_epoch < state.state_epoch:
            return KafkaError(ErrorCode.FENCED_STATE_EPOCH, "begun anew")
        return None

    def _tell(self, on_done: Callable[[Any], None], what: Any) -> None:
        if self.is_holding:
            self._held.append(lambda: on_done(what))
        else:
            on_done(what)


@dataclass
class MemoryDeadLetters:
    """Stores written letters, as (topic, offset, delivery count, reason).

    ``refusal`` refuses all of them, and ``is_holding`` keeps them waiting.
    """

    written: list[tuple[str, int, int, str]] = field(default_factory=list)
    attempt_count: int = 0
    refusal: KafkaError | None = None
    is_holding: bool = False
    _held: list[Callable[[], None]] = field(default_factory=list)

    def write(  # noqa: PLR0917 - as ``DeadLetters``
        self,
        key: ShareKey,
        partition: Partition,
        topic: str,
        dead: Sequence[DeadLetterRange],
        on_safe: OnSafe,
        on_done: OnDone,
    ) -> None:
        self.attempt_count += 1

        def end() -> None:
            if self.refusal is None:
                self.written += [
                    (topic, offset, each.delivery_count, each.reason.name)
                    for each in dead
                    for offset in range(each.first_offset, each.last_offset + 1)
                ]
                for each in dead:
                    on_safe(each)
            on_done(self.refusal)

        if self.is_holding:
            self._held.append(end)
        else:
            end()

    def let_go(self) -> None:
        self.is_holding = False
        held, self._held = self._held, []
        for each in held:
            each()
