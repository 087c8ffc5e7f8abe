"""The epochs of fetch sessions (KIP-227) and share sessions (KIP-932), which number requests.

The first request of a session has epoch 0, and each later request the next epoch. A request with
the final epoch ends the session.
"""

from typing import Final

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next request after one with ``epoch``.

    2147483647 is followed by 1, because 0 would begin another session.
    """
    return 1 if epoch == _LAST_EPOCH else epoch + 1
