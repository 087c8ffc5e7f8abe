"""Takes the topic over while this instance is elected, and releases it afterwards.

``is_writer`` of a registry is set after this instance took the topic over, and until it learns that
it is not elected any more. If another instance takes the topic over before that, the brokers fence
this one, so the topic never has two writers.
"""

import logging
from collections.abc import Awaitable, Callable

import trio

from log_service.common.errors import KafkaError
from log_service.http.schema_registry.election.elector import Elector, Leadership
from log_service.http.schema_registry.log.errors import SchemasLogError
from log_service.http.schema_registry.log.schemas_log import SchemasLog
from log_service.http.schema_registry.registry import Registry

logger = logging.getLogger(__name__)

TAKE_OVER_TIMEOUT_MS = 30_000
RETRY_S = 1.0


class WriterRole:
    """Follows the election for one instance. ``leadership`` is the last outcome it reacted to."""

    def __init__(self, elector: Elector, log: SchemasLog, registry: Registry) -> None:
        self._elector = elector
        self._log = log
        self._registry = registry
        self._changed = trio.Event()
        self.leadership = Leadership()

    def __repr__(self) -> str:
        return f"<WriterRole {self.leadership} is_writer={self._registry.is_writer}>"

    async def wait_changed(self) -> None:
        """Wait until the leadership or ``is_writer`` may have changed."""
        await self._changed.wait()

    async def run(self, after_take_over: Callable[[], Awaitable[None]]) -> None:
        """Take the topic over whenever this instance is elected, and release it otherwise.

        ``after_take_over`` is called after each take-over, while the election continues. It must
        end within a bounded time.
        """
        await self._registry.require_loaded(float("inf"))
        async with trio.open_nursery() as nursery:
            while True:
                self.leadership = self._elector.leadership
                was_writer = self._registry.is_writer
                if self.leadership.is_self and not was_writer:
                    await self._take_over()
                elif not self.leadership.is_self and was_writer:
                    self._registry.is_writer = False
                    self._log.release()
                self._changed.set()
                self._changed = trio.Event()
                if self._registry.is_writer and not was_writer:
                    nursery.start_soon(after_take_over)
                with trio.move_on_after(RETRY_S if self.leadership.is_self else float("inf")):
                    await self._elector.wait_changed(self.leadership)

    async def _take_over(self) -> None:
        try:
            await self._log.take_over(TAKE_OVER_TIMEOUT_MS)
            self._registry.is_writer = True
        except (SchemasLogError, KafkaError) as error:
            self._registry.is_writer = False
            logger.warning("The topic of schemas is not taken over yet: %s", error)
