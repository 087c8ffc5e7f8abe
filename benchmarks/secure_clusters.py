"""Measures the figures of secure and guarded brokers on a cluster of each product.

A cluster is three nodes with TLS, or three nodes with an authorizer. All connections between nodes
are over TLS, by which they also know each other: a node shows a certificate and is a super user.
Clients of ``guarded`` come in the clear and are ``User:ANONYMOUS``, as on one node. Those of
``encrypted`` come over TLS. Loads, settings and rows are those of ``encrypted`` and ``guarded``.
CPU is that of all three nodes. Their clusters live through the rounds of one family.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks import encrypted as of_one
from benchmarks import guarded as pair_of_one
from benchmarks.cluster_nodes import PRODUCTS, Nodes, running_cluster
from benchmarks.clusters import PATIENCE, AsOne, ClusterBench
from benchmarks.rounds import Sides, say
from benchmarks.secure_brokers import (
    AUTHORIZER,
    LISTENER_NAMES,
    SASL_SSL,
    SSL,
    SecureBroker,
    add_acls,
    add_user,
    secure_listeners,
)
from benchmarks.table import Row
from tests.helpers.authority import Authority, Issued

BETWEEN_NODES = LISTENER_NAMES[SSL]
PROTECTION = {
    "listener.security.protocol.map": (
        f"PLAINTEXT:PLAINTEXT,CONTROLLER:SSL,{BETWEEN_NODES}:SSL,{LISTENER_NAMES[SASL_SSL]}:SASL_SSL"
    ),
    "inter.broker.listener.name": BETWEEN_NODES,
    f"listener.name.{BETWEEN_NODES.lower()}.ssl.client.auth": "requested",
    "listener.name.controller.ssl.client.auth": "required",
}
NODE = "node"
SHARE = 0.3
"""The share of one node's load, because each record is written three times."""


def issued_in(directory: Path) -> Issued:
    """Return the certificate that all nodes show."""
    return Authority(directory).issue(NODE)


@contextlib.contextmanager
def secure_cluster(product: str, issued: Issued, **more: str) -> Iterator[Nodes]:
    """Start three nodes with listeners in the clear, with TLS, and with TLS and a login.

    ``more`` are properties.
    """
    properties = {**PATIENCE, **secure_listeners(issued), **PROTECTION, **more}
    with running_cluster(product, tuple(LISTENER_NAMES.values()), **properties) as nodes:
        yield nodes


@contextlib.contextmanager
def awake(nodes: Nodes) -> Iterator[None]:
    """Resume a cluster for its turn. It is suspended before and afterwards."""
    nodes.resume()
    try:
        yield
    finally:
        nodes.suspend()


def as_secure(nodes: Nodes, authority: Path) -> SecureBroker[AsOne]:
    """Return a cluster in the form that figures of one broker with TLS expect."""
    addresses = {
        protocol: ",".join(nodes.beside[name].values()) for protocol, name in LISTENER_NAMES.items()
    }
    return SecureBroker(broker=AsOne(nodes), addresses=addresses, authority=authority)


def _measure_encrypted(secure: SecureBroker[AsOne], bench: ClusterBench) -> list[Row]:
    with awake(secure.broker.nodes):
        return of_one.measure(secure, bench.at_scale(SHARE))


@contextlib.contextmanager
def encrypted(bench: ClusterBench) -> Iterator[Sides]:
    """Keep a cluster of each product from round to round."""
    bench.stop()
    with contextlib.ExitStack() as stack:
        issued = issued_in(
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-")))
        )
        found: dict[str, SecureBroker[AsOne]] = {}
        for name in bench.products:
            say(f"encrypted: starting and warming up three nodes of {name}")
            nodes = stack.enter_context(secure_cluster(PRODUCTS[name], issued))
            found[name] = as_secure(nodes, issued.truststore)
            add_user(found[name])
            nodes.suspend()
            _measure_encrypted(found[name], bench)
        yield bench.beside(
            {name: partial(_measure_encrypted, secure, bench) for name, secure in found.items()}
        )


def _alone(cluster: AsOne) -> contextlib.AbstractContextManager[None]:
    return awake(cluster.nodes)


@contextlib.contextmanager
def guarded(bench: ClusterBench) -> Iterator[Sides]:
    """Keep two clusters of each product from round to round, one without an authorizer.

    The other one has it.
    """
    bench.stop()
    with contextlib.ExitStack() as stack:
        issued = issued_in(
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-")))
        )
        found: dict[str, tuple[AsOne, AsOne]] = {}
        for name in bench.products:
            say(f"guarded: starting and warming up two times three nodes of {name}")
            found[name] = (
                _cluster(stack, PRODUCTS[name], issued, {}),
                _cluster(stack, PRODUCTS[name], issued, GUARD),
            )
            pair_of_one.measure(*found[name], _alone, bench.at_scale(SHARE / 3))
        yield bench.beside(
            {
                name: partial(pair_of_one.measure, *pair, _alone, bench.at_scale(SHARE))
                for name, pair in found.items()
            }
        )


GUARD: Mapping[str, str] = {**AUTHORIZER, "super_users": f"User:CN={NODE}"}


def _cluster(
    stack: contextlib.ExitStack, product: str, issued: Issued, more: Mapping[str, str]
) -> AsOne:
    nodes = stack.enter_context(secure_cluster(product, issued, **more))
    if more:
        add_acls(nodes.bootstrap)
    nodes.suspend()
    return AsOne(nodes)
