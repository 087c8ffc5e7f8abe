"""``tidelog acls`` lists, adds and removes ACLs, with the options of Kafka's ``kafka-acls.sh``.

This module defines the options that name resources, principals and operations, and what the two
shorthands ``--producer`` and ``--consumer`` mean.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.output import json_option, print_result, print_rows, say
from log_service.cli.standard_input import confirm
from log_service.client.admin.access import CLUSTER_NAME, OPERATIONS, AclBinding, AclFilter
from log_service.common.access import OPERATIONS_ON
from log_service.common.log_lines import escaped
from log_service.common.topic_names import topic_name_fault
from log_service.security.acls.hosts import java_host
from log_service.security.acls.values import WILDCARD

RESOURCES = {
    "topic": "topic",
    "group": "group",
    "transactional_id": "transactional_id",
    "delegation_token": "delegation_token",
    "user_principal": "user",
}
"""Options that name resources, and the types that they name."""
SUPPORTED = {
    kind.name.lower(): {operation.name.lower() for operation in operations}
    for kind, operations in OPERATIONS_ON.items()
}
"""Operations that each resource type supports, beside all.

``kafka-acls.sh`` refuses the others, too.
"""
OPERATION_NAMES = [name for name in OPERATIONS if name != "any"]
PRODUCER = {"topic": ("write", "describe", "create"), "transactional_id": ("write", "describe")}
CONSUMER = {"topic": ("read", "describe"), "group": ("read",)}
COLUMNS = ["principal", "permission", "operation", "resource", "name", "pattern", "host"]


@click.group()
def acls() -> None:
    """Manage access control lists (ACLs): which principals may use which resources, and how.

    \b
    A principal is User:NAME; NAME alone means the same. User:* is everybody.
    """


def operation_name(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return operations in tidelog's spelling, such as ``describe_configs``.

    Kafka's tools write this one as DescribeConfigs or DESCRIBE_CONFIGS.

    Raises:
        BadParameter: an operation does not exist.
    """
    known = {name.replace("_", ""): name for name in OPERATION_NAMES}
    for value in values:
        if value.lower().replace("_", "").replace("-", "") not in known:
            raise click.BadParameter(
                f"there is no operation {value!r}; there are {', '.join(OPERATION_NAMES)}"
            )
    return tuple(known[value.lower().replace("_", "").replace("-", "")] for value in values)


def acl_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name resources, principals and operations."""
    options = (
        click.option(
            "-t", "--topic", multiple=True, metavar="NAME", help="A topic; * is every topic."
        ),
        click.option("-g", "--group", multiple=True, metavar="NAME", help="A group."),
        click.option(
            "--transactional-id", multiple=True, metavar="NAME", help="A transactional id."
        ),
        click.option("--delegation-token", multiple=True, metavar="ID", help="A delegation token."),
        click.option(
            "--user-principal",
            multiple=True,
            metavar="User:NAME",
            help="A user whose tokens are meant.",
        ),
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option(
            "--resource-pattern-type",
            "--pattern",
            "pattern_type",
            type=click.Choice(["literal", "prefixed", "match", "any"]),
            help=(
                "prefixed: every resource whose name begins so; match and any are for list and"
                " remove."
            ),
        ),
        click.option("--allow-principal", multiple=True, metavar="User:NAME", help="Who may."),
        click.option(
            "--deny-principal",
            multiple=True,
            metavar="User:NAME",
            help="Who must not, whatever else allows it.",
        ),
        click.option(
            "--allow-host",
            multiple=True,
            metavar="ADDRESS",
            help="From where those may; default every address.",
        ),
        click.option(
            "--deny-host", multiple=True, metavar="ADDRESS", help="From where those must not."
        ),
        click.option(
            "-o",
            "--operation",
            "operations",
            multiple=True,
            metavar="NAME",
            callback=operation_name,
            help="What; default all.",
        ),
        click.option(
            "--producer",
            is_flag=True,
            help="What a producer needs of its topics (and transactional ids).",
        ),
        click.option(
            "--consumer", is_flag=True, help="What a consumer needs of its topics and groups."
        ),
        click.option(
            "--idempotent", is_flag=True, help="With --producer: for brokers before Kafka 2.8."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def principal(text: str) -> str:
    """Return a principal as ``Type:name``. A name alone means a user."""
    return text if ":" in text else f"User:{text}"


def named_resources(given: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (type, name) of each resource that the options name."""
    found = [
        (kind, principal(name) if kind == "user" else name)
        for option, kind in RESOURCES.items()
        for name in given[option]
    ]
    return found + [("cluster", CLUSTER_NAME)] * given["cluster"]


def bindings_of(given: dict[str, Any]) -> list[AclBinding]:
    """Return the ACLs that the options describe.

    Raises:
        UsageError: no resource or no principal is named, or options contradict each other.
    """
    resources = _with_operations(given)
    if not resources:
        raise click.UsageError(
            "name what: --topic, --group, --transactional-id, --cluster, --delegation-token or"
            " --user-principal"
        )
    if not given["allow_principal"] and not given["deny_principal"]:
        raise click.UsageError("name who: --allow-principal User:NAME, or --deny-principal")
    if given["pattern_type"] in {"match", "any"}:
        raise click.UsageError(
            f"--resource-pattern-type {given['pattern_type']} is for list and remove: an ACL is"
            " literal or prefixed"
        )
    _require_meaning(resources, is_literal=given["pattern_type"] != "prefixed")
    return list(
        dict.fromkeys(
            AclBinding(
                resource_type=kind,
                name=name,
                pattern_type="literal" if kind == "cluster" else given["pattern_type"] or "literal",
                principal=who,
                host=_written(host),
                operation=operation,
                permission=permission,
            )
            for kind, name, operations in resources
            for permission, who, host in _whom(given)
            for operation in operations
        )
    )


def _whom(given: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for permission in ("allow", "deny"):
        hosts = given[f"{permission}_host"]
        if hosts and not given[f"{permission}_principal"]:
            raise click.UsageError(
                f"--{permission}-host is for the principals of --{permission}-principal, and there"
                " are none"
            )
        for who in given[f"{permission}_principal"]:
            for host in hosts or ("*",):
                yield permission, principal(who), host


def _written(host: str) -> str:
    """Return an address in Java's spelling, because brokers compare addresses in this form.

    An ACL that denies ``::1`` would deny nothing, because Java writes ``0:0:0:0:0:0:0:1``.

    Raises:
        UsageError: the text is neither an address nor ``*``.
    """
    if host == WILDCARD:
        return host
    try:
        ip_address(host.partition("%")[0])
    except ValueError as error:
        text = (
            f"{host!r} is not an address: an ACL is about one address, or about all (*); it knows"
            " neither names nor ranges"
        )
        raise click.UsageError(text) from error
    return java_host(host)


def _with_operations(given: dict[str, Any]) -> list[tuple[str, str, Sequence[str]]]:
    """Return (type, name, operations) of each resource.

    The operations come from --operation or from the shorthands.
    """
    resources = named_resources(given)
    if not given["producer"] and not given["consumer"]:
        return [(kind, name, given["operations"] or ("all",)) for kind, name in resources]
    if given["operations"]:
        raise click.UsageError(
            "--producer and --consumer say which operations: leave out --operation"
        )
    _require_names(given)
    found: list[tuple[str, str, Sequence[str]]] = []
    for kind, name in resources:
        wanted = [
            *(PRODUCER.get(kind, ()) if given["producer"] else ()),
            *(CONSUMER.get(kind, ()) if given["consumer"] else ()),
        ]
        if not wanted:
            raise click.UsageError(
                f"{kind} {name} has no part in --producer or --consumer as they are given: leave"
                " it out"
            )
        found.append((kind, name, tuple(dict.fromkeys(wanted))))
    if given["idempotent"]:
        found.append(("cluster", CLUSTER_NAME, ("idempotent_write",)))
    return found


def _require_names(given: dict[str, Any]) -> None:
    if not given["topic"]:
        raise click.UsageError("--producer and --consumer need --topic")
    if given["consumer"] and not given["group"]:
        raise click.UsageError("--consumer needs --group")


def _require_meaning(
    resources: Iterable[tuple[str, str, Sequence[str]]], *, is_literal: bool
) -> None:
    """Refuse ACLs that could never allow or deny anything, because they must be a mistake.

    Raises:
        UsageError: a resource has no such operation, or a topic cannot have the name.
    """
    for kind, name, operations in resources:
        for operation in operations:
            if operation != "all" and operation not in SUPPORTED[kind]:
                known = ", ".join(sorted(SUPPORTED[kind]))
                raise click.UsageError(
                    f"{operation} is nothing that can be done with a {kind}; there are all, {known}"
                )
        if (
            kind == "topic"
            and is_literal
            and name != "*"
            and (fault := topic_name_fault(name)) is not None
        ):
            raise click.UsageError(
                f"no topic is called {name!r}: {fault}; --pattern prefixed means every topic whose"
                " name begins so"
            )


def filters_of(given: dict[str, Any]) -> list[AclFilter]:
    """Return the filters of the ACLs that the options select.

    They match the ACLs of every named resource and principal. If none is named, they match all.
    """
    if given["producer"] or given["consumer"]:
        return [
            AclFilter(
                resource_type=each.resource_type,
                name=each.name,
                pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission=each.permission,
            )
            for each in bindings_of(given)
        ]
    pattern = given["pattern_type"] or "any"
    whom = list(_filtered_whom(given))
    resources: list[tuple[str, str | None]] = [*named_resources(given)] or [("any", None)]
    return [
        AclFilter(
            resource_type=kind,
            name=name,
            pattern_type=pattern,
            principal=who,
            host=host,
            permission=permission,
            operation=operation,
        )
        for kind, name in resources
        for permission, who, host in whom
        for operation in given["operations"] or ("any",)
    ]


def _filtered_whom(given: dict[str, Any]) -> Iterator[tuple[str, str | None, str | None]]:
    if given["allow_host"] or given["deny_host"]:
        for permission, who, host in _whom(given):
            for written in dict.fromkeys((host, java_host(host))):
                # Other tools keep what a person wrote.
                yield permission, who, written
        return
    for permission in ("allow", "deny"):
        for who in given[f"{permission}_principal"]:
            yield permission, principal(who), None
    if not given["allow_principal"] and not given["deny_principal"]:
        yield "any", None, None


def shown(found: Sequence[AclBinding]) -> list[dict[str, str]]:
    """Return ACLs as rows."""
    return [
        {
            "principal": each.principal,
            "permission": each.permission,
            "operation": each.operation,
            "resource": each.resource_type,
            "name": each.name,
            "pattern": each.pattern_type,
            "host": each.host,
        }
        for each in found
    ]


@acls.command("list", short_help="List ACLs.")
@acl_options
@json_option
@cluster_command
async def list_acls(*, as_json: bool, bootstrap_servers: str, **given: Any) -> None:
    """List all ACLs, or those of the resources and principals that the options name.

    \b
    tidelog acls list
    tidelog acls list --topic orders --pattern match      all that bear on orders
    tidelog acls list --allow-principal alice
    """
    async with open_admin(bootstrap_servers) as admin:
        found = {acl for wanted in filters_of(given) for acl in await admin.describe_acls(wanted)}
    rows = shown(sorted(found, key=str))
    print_rows(
        rows,
        COLUMNS,
        as_json=as_json,
        empty="there are no such ACLs; see: tidelog acls add --help",
        flexible=["name", "principal"],
    )


@acls.command(short_help="Add ACLs.")
@acl_options
@json_option
@cluster_command
async def add(*, as_json: bool, bootstrap_servers: str, **given: Any) -> None:
    """Allow, or deny, operations on resources. Existing ACLs stay.

    \b
    tidelog acls add --allow-principal alice --producer --topic orders
    tidelog acls add --allow-principal etl --consumer -t orders -g etl
    tidelog acls add --allow-principal etl -o write -t shop. --pattern prefixed
    tidelog acls add --deny-principal mallory --operation all --topic '*'
    """
    bindings = bindings_of(given)
    async with open_admin(bootstrap_servers) as admin:
        await admin.create_acls(bindings)
    print_result("\n".join(str(binding) for binding in bindings), shown(bindings), as_json=as_json)


@acls.command(short_help="Remove ACLs.")
@acl_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster_command
async def remove(*, yes: bool, as_json: bool, bootstrap_servers: str, **given: Any) -> None:
    """Remove the ACLs of the resources and principals that the options name.

    \b
    tidelog acls remove --allow-principal alice --topic orders
    tidelog acls remove --allow-principal etl --consumer -t orders -g etl
    """
    wanted = filters_of(given)
    if wanted == [AclFilter()]:
        raise click.UsageError(
            "name which: a resource, a principal or an operation; all ACLs are not removed at once"
        )
    async with open_admin(bootstrap_servers) as admin:
        found = sorted({acl for each in wanted for acl in await admin.describe_acls(each)}, key=str)
        if not found:
            raise click.ClickException("there are no such ACLs; see: tidelog acls list")
        if not yes:
            say("\n".join(escaped(str(acl)) for acl in found), err=True)
            await confirm("Remove these?", "nothing was removed")
        removed = await admin.delete_acls(wanted)
    print_result("\n".join(f"removed: {acl}" for acl in removed), shown(removed), as_json=as_json)
