"""The client of a schema registry that commands use: it tells the user if a response is late.

Importing this needs the extra ``schemas``.
"""

from typing import Any, Final, TypeVar

import trio

from log_service.cli.output import say
from log_service.client import SchemaRegistryClient
from log_service.client.schemas.exchange import Steps

T = TypeVar("T")

NOTE_AFTER_S: Final = 3.0
"""Seconds without a response after which a note says what the command waits for."""


class CommandRegistryClient(SchemaRegistryClient):
    """Prints a note on standard error, at most once, if a response is late.

    The note says how many seconds after a request the command gives up.
    """

    def __init__(self, url: str, **settings: Any) -> None:
        super().__init__(url, **settings)
        self._is_wait_noted = False

    async def run(self, steps: Steps[T]) -> T:
        """Do the requests of ``steps``, and return the result."""
        outcome: T | Exception
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._note_wait)
            try:
                outcome = await super().run(steps)
            except Exception as error:  # noqa: BLE001 - it is raised below, where no nursery wraps it
                outcome = error
            nursery.cancel_scope.cancel()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _note_wait(self) -> None:
        if self._is_wait_noted:
            return
        await trio.sleep(NOTE_AFTER_S)
        self._is_wait_noted = True
        settings = self.settings
        longest_s = settings.timeout * (settings.max_retries + 1) * len(settings.urls)
        say(
            f"waiting for the schema registry at {', '.join(settings.urls)}; the command gives up"
            f" {longest_s:g} s after a request",
            err=True,
        )
