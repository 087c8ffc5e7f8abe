"""Lists, starts, stops and restarts the nodes of a ``tidelog up`` installation, from any process.

A node is operated by its supervisor, which is asked through files of its data directory
(``control``). ``tidelog cluster`` and the Dagster jobs that operate a cluster use this. Invariant:
a broker belongs to the installation only if their cluster ids are equal. So a command for another
cluster leaves the installation alone.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from log_service.supervisor.control import ADD, REMOVE, RESTART, START, STOP, ControlRequest, ask
from log_service.supervisor.nodes import ClusterSpec, read_cluster
from log_service.supervisor.state import is_locked

CONTROL_TIMEOUT_S = 180.0
"""How long a supervisor may take to carry out a request.

It is long, because a node that stops in order moves its leaders first.
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation on the data directory ``data``.

    Methods that send a request to its supervisor raise as ``control.ask``: StorageError,
    ControlRefused.
    """

    data: Path

    def nodes(self) -> ClusterSpec | None:
        """Return the nodes that the supervisor of the data directory runs.

        Return None if no supervisor runs, or if it runs a single broker.
        """
        return read_cluster(self.data) if is_locked(self.data) else None

    def nodes_of(self, cluster_id: str) -> ClusterSpec | None:
        """Return the nodes if the installation is the cluster with this id, else None."""
        nodes = self.nodes()
        return nodes if nodes is not None and nodes.cluster_id == cluster_id else None

    def runs(self, cluster_id: str, node_id: int) -> bool:
        """Return whether the supervisor runs this node of this cluster."""
        nodes = self.nodes_of(cluster_id)
        return nodes is not None and any(node.node_id == node_id for node in nodes.nodes)

    async def start_one_more(self) -> int:
        """Let the supervisor start one more node, and return its id.

        The node may not have joined the cluster yet.
        """
        return int((await self._ask(ADD))["node_id"])

    async def stop_for_good(self, node_id: int) -> None:
        """Let the supervisor stop a node and remove it from the installation."""
        await self._ask(REMOVE, node_id)

    async def restart(self, node_id: int) -> None:
        """Let the supervisor stop a node gracefully and start it again."""
        await self._ask(RESTART, node_id)

    async def hold(self, node_id: int) -> None:
        """Let the supervisor stop a node, and leave it down until ``release``."""
        await self._ask(STOP, node_id)

    async def release(self, node_id: int) -> None:
        """Let the supervisor start a node that ``hold`` has stopped."""
        await self._ask(START, node_id)

    async def _ask(self, command: str, node_id: int | None = None) -> dict[str, Any]:
        return await ask(
            self.data, ControlRequest(command=command, node_id=node_id), timeout_s=CONTROL_TIMEOUT_S
        )
