"""Join the responses of several shards into one response to the client.

This file decides nothing. It waits for all responses and keeps the order of the requests.
"""

from collections.abc import Callable
from typing import Any

from log_service.state_machine.runtime import OnReply


class Gathering:
    """Collects a known number of responses, and passes all of them on when the last has arrived.

    They are passed on in the order of their requests.
    """

    def __init__(self, part_count: int, on_all: Callable[[list[Any]], None]) -> None:
        self._parts: list[Any] = [None] * part_count
        self._missing_count = part_count
        self._on_all = on_all
        if part_count == 0:
            on_all([])

    def part(self, index: int) -> OnReply:
        """Return the callback for the response to the request at ``index``, counted from 0."""

        def on_reply(response: Any) -> None:
            self._parts[index] = response
            self._missing_count -= 1
            if self._missing_count == 0:
                self._on_all(self._parts)

        return on_reply
