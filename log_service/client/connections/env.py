"""The real world for a client: system clock, system randomness, sockets. Every public class takes another ``env`` for tests."""

from random import SystemRandom

from log_service.common.clock import SystemClock
from log_service.common.env import Env
from log_service.network.sockets import SocketNetwork


def real_env() -> Env:
    """Return the real clock, randomness and network."""
    return Env(clock=SystemClock(), rng=SystemRandom(), network=SocketNetwork())
