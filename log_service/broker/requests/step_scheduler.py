"""Makes large responses in several turns of the event loop.

Decides when such a response has its turn. In one turn the loop takes one step of all of them
together, so that other requests are handled in between. A response of a single step is sent at
once, as others are. A longer one is encoded in the pool. Its work ends when the client leaves.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

import trio

from log_service.broker.requests.call import Call, Deferred
from log_service.common.env import RunInPool
from log_service.common.errors import KafkaError
from log_service.common.steps import Steps
from log_service.protocol.schema import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")

ITEMS_PER_STEP = 250
"""Partitions, or other things of a response, that one step describes. It takes some 3 ms."""


class StepScheduler:
    """Runs the steps of all long responses of a node, one step at a time."""

    def __init__(self, run_in_pool: RunInPool) -> None:
        self._run_in_pool = run_in_pool
        self._turn = trio.Lock()

    def __repr__(self) -> str:
        return f"<StepScheduler waiting={self._turn.statistics().tasks_waiting}>"

    def respond(self, call: Call, steps: Steps[R]) -> R | Deferred:
        """Return the response that ``steps`` make, or a deferred one if it takes several steps."""
        try:
            next(steps)
        except StopIteration as ended:
            response: R = ended.value
            return response
        return self.run(call, self.take(steps))

    def run(self, call: Call, waiting: Coroutine[Any, Any, Message]) -> Deferred:
        """Run a coroutine in a task, and return the deferred response that it completes.

        The coroutine is cancelled if the client leaves.
        """
        deferred = call.defer()
        self.complete(call, deferred, waiting)
        return deferred

    def complete(
        self, call: Call, deferred: Deferred, waiting: Coroutine[Any, Any, Message]
    ) -> None:
        """Run a coroutine in a task. Complete ``deferred`` with the response that it returns.

        The coroutine is cancelled if the client leaves.
        """
        scope = trio.CancelScope()
        deferred.on_discard(scope.cancel)  # the client may leave before the task begins
        call.route.start_task(self._complete, call, deferred, waiting, scope)

    async def take(self, steps: Steps[T]) -> T:
        """Run all steps, one in each turn, and return their result."""
        while True:
            async with self._turn:
                try:
                    next(steps)
                except StopIteration as ended:
                    result: T = ended.value
                    return result

    async def _complete(
        self,
        call: Call,
        deferred: Deferred,
        waiting: Coroutine[Any, Any, Message],
        scope: trio.CancelScope,
    ) -> None:
        with scope:
            try:
                response = await call.counting(waiting)
                if call.amend_in_steps is not None:
                    amending = self.take(call.amend_in_steps(response))
                    response, call.amend = await call.counting(amending), None
                deferred.complete_encoded(await call.respond_in_pool(response, self._run_in_pool))
            except KafkaError as error:
                deferred.complete(call.refusal(error))
            except Exception as error:  # noqa: BLE001 - a bug of ours: its own connection pays
                deferred.fail(error)
