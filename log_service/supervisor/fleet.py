"""The nodes of a running installation. Adds, removes, restarts or holds a node on request.

The requests come from ``control``. To hold a node means to stop it until it is started again. A new
node is written to ``cluster.json`` once it is ready, and a leaving node is removed from it once it
has stopped, so that the next start of the installation finds the right nodes. This module does not
move replicas. A node has to be emptied before it is removed.
"""

from collections.abc import Mapping
from typing import Any

from log_service.common.errors import ConfigError
from log_service.common.urls import host_port
from log_service.supervisor.control import ADD, REMOVE, START, STOP, ControlRequest
from log_service.supervisor.nodes import (
    MAX_BROKERS,
    ClusterSpec,
    NodeFactory,
    broker_port,
    check_login_ports,
    check_node_ports,
    write_cluster,
)
from log_service.supervisor.supervisor import Supervisor


class Fleet:
    """The nodes of one supervisor."""

    def __init__(self, supervisor: Supervisor, cluster: ClusterSpec, factory: NodeFactory) -> None:
        self._supervisor = supervisor
        self._cluster = cluster
        self._factory = factory

    @property
    def cluster(self) -> ClusterSpec:
        """The present nodes of the installation."""
        return self._cluster

    async def handle(self, request: ControlRequest) -> Mapping[str, Any]:
        """Carry out a request, and return the id and the name of its node.

        For a new node, also return its address. A node that is started or restarted first gets a
        new properties file.

        Raises:
            ConfigError: the node does not exist, cannot be added or removed, or is stopped or
                running already.
            StartFailed: the node does not start.
        """
        if request.command == ADD:
            return await self._add()
        if request.node_id is None:
            raise ConfigError(f"which node is to {request.command}?")
        node = self._cluster.node(request.node_id)
        if request.command == STOP:
            await self._supervisor.hold(node.name)
        elif request.command == START:
            self._factory.component(self._cluster, node)
            await self._supervisor.release(node.name)
        elif request.command == REMOVE:
            remaining = self._cluster.without(node.node_id)
            await self._supervisor.take_away(node.name)
            self._keep(remaining)
        else:
            self._factory.component(self._cluster, node)
            await self._supervisor.restart(node.name)
        return {"node_id": node.node_id, "name": node.name}

    async def _add(self) -> Mapping[str, Any]:
        grown = self._cluster.with_one_more()
        node = grown.nodes[-1]
        if len(grown.nodes) > MAX_BROKERS:
            raise ConfigError(f"an installation has at most {MAX_BROKERS} brokers")
        alone = ClusterSpec(
            cluster_id=grown.cluster_id, nodes=(node,), next_node_id=grown.next_node_id
        )
        check_node_ports(alone, self._factory.context.host, self._factory.first_port)
        if self._factory.is_secure:
            check_login_ports(alone, self._factory.first_port)
        await self._supervisor.add(self._factory.component(grown, node))
        self._keep(grown)
        address = host_port(self._factory.context.host, broker_port(self._factory.first_port, node))
        return {"node_id": node.node_id, "name": node.name, "address": address}

    def _keep(self, cluster: ClusterSpec) -> None:
        self._cluster = cluster
        write_cluster(self._factory.context.data_directory, cluster)
