"""``tidelog cluster status`` prints the cluster's problems first, then a row per broker.

A row has leaders, replicas, lag, disk and the broker's role in the quorum. Controllers that are
not brokers follow, with only their role in the quorum.

The exit code reports the health to scripts. 0 is healthy. 3: all works, but the next failure may
lose data or availability. 4: clients cannot read or write something now. 1: no broker responds, as
with every command.
"""

from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.output import counted, json_option, print_json, print_rows, sized
from log_service.cluster_operations.findings import state_findings
from log_service.cluster_operations.moving import brokers_left_throttled
from log_service.cluster_operations.reading import ClusterState, read_state
from log_service.cluster_plans.health import (
    DISK_FULL_PERCENT,
    Finding,
    QuorumMember,
    Severity,
    worst,
)
from log_service.cluster_plans.layout import NO_LEADER, BrokerLayout

EXIT_CODES = {Severity.NOTICE: 0, Severity.DEGRADED: 3, Severity.FAILED: 4}
MARKS = {Severity.NOTICE: "note", Severity.DEGRADED: "degraded", Severity.FAILED: "FAILED"}


@click.command(short_help="Tell what is wrong, and how each broker is.")
@click.option(
    "--disk-full",
    "disk_full_percent",
    type=click.IntRange(1, 100),
    default=DISK_FULL_PERCENT,
    envvar="TIDELOG_DISK_FULL_PERCENT",
    show_default=True,
    show_envvar=True,
    metavar="PERCENT",
    help="Up to where a disk may be full.",
)
@json_option
@cluster_command
async def status(*, disk_full_percent: int, as_json: bool, bootstrap_servers: str) -> None:
    """Show the cluster's problems first, then the state of each broker.

    Exit code 0: all is well; 3: all works, and the next failure may cost something; 4: clients
    cannot read or write something now.
    """
    async with open_admin(bootstrap_servers) as admin:
        state = await read_state(admin)
        throttled = await brokers_left_throttled(admin, state)
    findings = state_findings(state, throttled, disk_full_percent=disk_full_percent)
    severity = worst(findings)
    rows = [broker_row(state, broker) for broker in state.layout.brokers]
    if as_json:
        print_json(as_values(state, findings, rows))
    else:
        show(state, findings, rows)
    raise click.exceptions.Exit(0 if severity is None else EXIT_CODES[severity])


def show(state: ClusterState, findings: list[Finding], rows: list[dict[str, Any]]) -> None:
    """Print the findings, the brokers and the quorum."""
    if not findings:
        click.echo("all is well")
    for finding in findings:
        click.echo(f"{MARKS[finding.severity]:<8}  {finding.text}")
    partitions = state.layout.partitions
    topics = len({each.where.topic for each in partitions})
    counts = "  ".join(
        [
            counted(len(rows), "broker"),
            counted(topics, "topic"),
            counted(len(partitions), "partition"),
        ]
    )
    leader = f"active controller {state.quorum.leader_id}  epoch {state.quorum.leader_epoch}"
    if state.quorum.leader_id == NO_LEADER:
        leader = "active controller unknown" if state.is_hidden else "no active controller"
    click.echo(f"\ncluster {state.cluster_id}  {counts}  {leader}\n")
    columns = [
        "node",
        "state",
        "rack",
        "leaders",
        "replicas",
        "in_sync",
        "lag",
        "quorum",
        "used",
        "free",
    ]
    print_rows([*rows, *controller_rows(state)], columns, as_json=False, flexible=["rack"])


def broker_row(state: ClusterState, broker: BrokerLayout) -> dict[str, Any]:
    """Return a broker as a row."""
    own = broker.broker_id
    replicas = [each for each in state.layout.partitions if own in each.replicas]
    member = next((each for each in state.quorum.members if each.node_id == own), None)
    online = [directory for directory in broker.log_dirs if directory.is_online]
    used = sum(directory.used_bytes for directory in online)
    total = sum(directory.total_bytes for directory in online)
    usable = sum(directory.usable_bytes for directory in online)
    role = None if member is None else state.quorum.role_of(member)
    return {
        "broker": own,
        "node": own,
        "state": state.state_of(broker),
        "address": broker.address,
        "rack": broker.rack,
        "leaders": sum(each.leader == own for each in replicas),
        "replicas": len(replicas),
        "in_sync": sum(own in each.isr for each in replicas),
        "lag": max((each.lags.get(own, 0) for each in replicas), default=0) if online else None,
        "quorum": None if member is None else place_in_quorum(state, member),
        "quorum_role": role,
        "quorum_lag": None if member is None else member.lag,
        "used": sized(used) if online else None,
        "used_bytes": used if online else None,
        "free": f"{100 * usable / total:.0f} %" if total > 0 else None,
        "usable_bytes": usable if online else None,
        "total_bytes": total if online else None,
        "failed_log_dirs": [
            directory.path for directory in broker.log_dirs if not directory.is_online
        ],
        "cordoned_log_dirs": [
            directory.path for directory in broker.log_dirs if directory.is_cordoned
        ],
    }


def place_in_quorum(state: ClusterState, member: QuorumMember) -> str:
    """Return a member's role in the quorum, and its lag in records of the metadata log."""
    role = state.quorum.role_of(member)
    return f"{role} -{member.lag}" if member.lag else role


def controller_rows(state: ClusterState) -> list[dict[str, Any]]:
    """Return the controllers that are not brokers, as rows.

    An observer that is behind is left out, because it may be a broker that has left the cluster.
    """
    brokers = {broker.broker_id for broker in state.layout.brokers}
    return [
        {
            "node": member.node_id,
            "state": "behind" if member.is_behind else "controls",
            "quorum": place_in_quorum(state, member),
        }
        for member in state.quorum.members
        if member.node_id not in brokers and (member.is_voter or not member.is_behind)
    ]


def as_values(
    state: ClusterState, findings: list[Finding], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the whole status as plain values for programs."""
    severity = worst(findings)
    return {
        "health": (
            "well" if severity is None or severity is Severity.NOTICE else MARKS[severity].lower()
        ),
        "findings": [
            {
                "check": each.check,
                "severity": each.severity.name.lower(),
                "text": each.text,
                "items": list(each.items),
            }
            for each in findings
        ],
        "cluster_id": state.cluster_id,
        "quorum": {
            "leader_id": state.quorum.leader_id,
            "leader_epoch": state.quorum.leader_epoch,
            "members": [
                {
                    "node_id": each.node_id,
                    "voter": each.is_voter,
                    "lag": each.lag,
                    "caught_up_ms_ago": each.caught_up_ms_ago,
                }
                for each in state.quorum.members
            ],
        },
        "brokers": [
            {
                name: value
                for name, value in row.items()
                if name not in {"node", "quorum", "used", "free"}
            }
            for row in rows
        ],
        "controllers": [
            {"node_id": row["node"], "state": row["state"]} for row in controller_rows(state)
        ],
        "partitions": len(state.layout.partitions),
    }
