"""The simulated world: virtual time, a memory network and a memory disk, all drawn from one seed.

- ``world``: ``sim_run`` and ``World``, which hands out a node's ``NodeEnv``.
- ``clock``: ``VirtualClock``.
- ``network``: ``MemoryNetwork`` with latency, chunks, cuts and resets.
- ``disk`` and ``files``: ``MemoryFiles``, which loses what was not synced.
"""

from tests.sim.clock import VirtualClock
from tests.sim.disk import Crashed
from tests.sim.files import MemoryFiles
from tests.sim.network import MemoryNetwork, Weather
from tests.sim.world import World, sim_run

__all__ = ["Crashed", "MemoryFiles", "MemoryNetwork", "VirtualClock", "Weather", "World", "sim_run"]
