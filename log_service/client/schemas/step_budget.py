"""Limits the steps of work on one value, because a small schema may cause very many steps.

References within references, defaults within defaults, and unions within unions can double the
steps at every level. Invariant: threads that share a schema do not share a budget.
"""

import threading
from typing import Any, Final

from log_service.client.schemas.errors import SerializationError

MAX_STEPS: Final = 200_000
"""The steps that even the smallest value may take. A step looks at one part of a schema."""
STEPS_OF_A_PART: Final = 20
"""The additional steps for each item and field of a value."""


class StepBudget:
    """The number of steps that are left for a thread's present value."""

    def __init__(self) -> None:
        self._here = threading.local()

    def renew(self, value: Any) -> None:
        """Begin with a new value of this thread. A large value may take more steps."""
        self._here.left = MAX_STEPS + STEPS_OF_A_PART * _part_count(value)

    def spend(self) -> None:
        """Count a step.

        Raises:
            SerializationError: no step is left for the value.
        """
        self._here.left = left = getattr(self._here, "left", MAX_STEPS) - 1
        if left < 0:
            raise SerializationError(
                f"the value needs more than {MAX_STEPS} steps with this schema, and more than"
                f" {STEPS_OF_A_PART} for each of its parts: references, defaults or unions within"
                " each other multiply them"
            )


def _part_count(value: Any) -> int:
    """Return how many items and fields a value of JSON has, at all levels."""
    count, waiting = 0, [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict | list):
            count += len(found)
            waiting += found.values() if isinstance(found, dict) else found
    return count
