"""What a long run of the tests adds to every run: ``make test-all WHOLE=1``.

Every run of the tests holds the product to every promise. A long run repeats: the same story on one side more, more kills, more seeds, a
heavier load, and what Apache Kafka was asked before. A test that does nothing else has the mark ``repeats``, with the reason.
"""

import os
from typing import TypeVar

Value = TypeVar("Value")

IS_WHOLE = bool(os.environ.get("WHOLE"))


def of_a_run(usual: Value, whole: Value) -> Value:
    """Return what every run takes, or what a long run takes."""
    return whole if IS_WHOLE else usual
