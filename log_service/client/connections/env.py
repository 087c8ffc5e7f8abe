"""The real environment of a client: system clock, system randomness and sockets.

Every public class accepts another ``env``, for tests.
"""

from random import SystemRandom

from log_service.common.clock import SystemClock
from log_service.common.env import Env
from log_service.network.sockets import SocketNetwork


def real_env() -> Env:
    """Return the real clock, randomness and network."""
    return Env(clock=SystemClock(), rng=SystemRandom(), network=SocketNetwork())
