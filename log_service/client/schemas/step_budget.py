"""Bounds the steps of work on one value, because a small schema may ask for very many.

A reference within a reference, a default within a default, and a union within a union each double
the steps at every level. Invariant: threads that share a schema do not share a budget.
"""

import threading
from typing import Final

from log_service.client.schemas.errors import SerializationError

MAX_STEPS: Final = 200_000
"""The parts of a schema that may be looked at for one value."""


class StepBudget:
    """The steps that are left for a value, by thread."""

    def __init__(self) -> None:
        self._here = threading.local()

    def renew(self) -> None:
        """Begin with a value."""
        self._here.left = MAX_STEPS

    def spend(self) -> None:
        """Count a step.

        Raises:
            SerializationError: there were too many.
        """
        self._here.left = left = getattr(self._here, "left", MAX_STEPS) - 1
        if left < 0:
            raise SerializationError(
                f"the value needs more than {MAX_STEPS} steps with this schema: references,"
                " defaults or unions within each other multiply them"
            )
