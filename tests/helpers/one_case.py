"""Chooses one case of each test with parameters, for ``--one-case``.

It is for a run whose code has passed all cases elsewhere. The choice depends on the test's name
alone, so that a run repeats. It is not always the first case, so that all tests together have cases
of all kinds.
"""

from collections.abc import Iterable
from zlib import crc32


def one_case(nodeids: Iterable[str]) -> set[str]:
    """Return one of the cases of each test, and each test without parameters."""
    cases: dict[str, list[str]] = {}
    for nodeid in nodeids:
        cases.setdefault(nodeid.partition("[")[0], []).append(nodeid)
    return {of_test[crc32(test.encode()) % len(of_test)] for test, of_test in cases.items()}
