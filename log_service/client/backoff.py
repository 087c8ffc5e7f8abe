"""How long to wait before trying again: doubling, bounded, with jitter, so that many clients do not come back together (KIP-580).

Pure: randomness is an argument, nobody sleeps here.
"""

from dataclasses import dataclass
from random import Random

JITTER = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A pause that doubles from ``first_ms`` to ``max_ms``, each moved by up to 20 % either way."""

    first_ms: int
    max_ms: int

    def delay_ms(self, attempt: int, rng: Random) -> float:
        """Return the pause before the retry that follows failed attempt number ``attempt`` (0 is the first)."""
        plain = self.first_ms * (1 << min(attempt, 30))
        return min(plain * rng.uniform(1 - JITTER, 1 + JITTER), self.max_ms)
