"""Tells tests whether the run is a long one: ``make test-all WHOLE=1``.

Every run of the tests holds the product to every promise. A long run repeats the same story on one
side more, with more kills, more seeds and a heavier load, and with everything that Apache Kafka was
asked before. A test that does nothing else has the mark ``repeats``, with the reason.
"""

import os
from typing import TypeVar

Value = TypeVar("Value")

IS_WHOLE = bool(os.environ.get("WHOLE"))


def of_a_run(usual: Value, whole: Value) -> Value:
    """Return ``usual``, or ``whole`` in a long run."""
    return whole if IS_WHOLE else usual
