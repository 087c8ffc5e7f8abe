"""Measures a node with 100,000 ACLs: the time to create them, their memory, and a restart.

The ACLs are those of many teams' topics, half of them prefixes, and are made by one connection,
``PER_REQUEST`` in a request. Memory is read from the system, before and after, and again after a
restart, which is the memory in the long run. A restart ends with the first record that is accepted.
Each round begins in an empty directory.
"""

import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.access import acl
from benchmarks.broker_process import BenchmarkError
from benchmarks.rounds import Bench, Prepare
from benchmarks.secure_brokers import AUTHORIZER
from benchmarks.table import Row, at_most
from benchmarks.wire import Wire
from log_service.metadata.access import AclEntry
from log_service.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)

COUNT, PER_REQUEST = 100_000, 1_000
VERSION = 3
SETTLE_S = 2.0


def measure(prepare: Prepare, bench: Bench) -> list[Row]:
    """Measure one round."""
    count = bench.count(COUNT, at_least=PER_REQUEST)
    what = f"{count:,} ACLs"
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        installation = prepare(Path(directory), **AUTHORIZER)
        with installation.running() as broker:
            time.sleep(SETTLE_S)
            before_bytes, cpu_before = broker.rss_bytes(), broker.cpu_s()
            seconds = create_acls(broker.address, [acl(number) for number in range(count)])
            cpu_s = broker.cpu_s() - cpu_before
            time.sleep(SETTLE_S)
            growth_bytes = broker.rss_bytes() - before_bytes
        with installation.running() as broker:
            time.sleep(SETTLE_S)
            restart_s, restarted_bytes = broker.start_s, broker.rss_bytes()
    name = f"creation of {what}, {PER_REQUEST:,} in a request"
    return [
        Row(figure=name, unit="s", rounds=(seconds,), goal=at_most(1.0)),
        Row(figure=f"  broker CPU of {name}", unit="s", rounds=(cpu_s,), goal=at_most(1.0)),
        Row(figure=f"growth of RSS with {what}", unit="MB", rounds=(growth_bytes / 1e6,)),
        Row(figure=f"restart with {what}", unit="s", rounds=(restart_s,), goal=at_most(1.0)),
        Row(
            figure=f"RSS with {what}, after a restart",
            unit="MB",
            rounds=(restarted_bytes / 1e6,),
            goal=at_most(0.5),
        ),
    ]


def create_acls(address: str, acls: list[AclEntry]) -> float:
    """Create ACLs, and return the seconds that took.

    Raises:
        BenchmarkError: the broker refused one.
    """
    requests = [
        CreateAclsRequest(creations=creations(acls[start : start + PER_REQUEST]))
        for start in range(0, len(acls), PER_REQUEST)
    ]
    wire = Wire(address)
    started = time.monotonic()
    try:
        for request in requests:
            results = wire.ask(request, VERSION, CreateAclsResponse).results
            refused = next((result for result in results if result.error_code), None)
            if refused is not None:
                raise BenchmarkError(
                    f"an ACL was refused: {refused.error_message or refused.error_code}"
                )
    finally:
        wire.close()
    return time.monotonic() - started


def creations(acls: Iterable[AclEntry]) -> list[AclCreation]:
    """Return a request's entries about ACLs."""
    return [
        AclCreation(
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            resource_pattern_type=each.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission_type,
        )
        for each in acls
    ]
