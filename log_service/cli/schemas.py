"""``tidelog schemas`` lists, registers, checks, compares and deletes the schemas of a registry.

It works over HTTP with any registry that has Confluent's API. This module decides how schemas are
printed.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

import click

from log_service.cli.output import json_option, print_json, print_result, print_rows, say
from log_service.cli.registry_connection import registry_command
from log_service.cli.schema_files import require_schema_text, schema_type_of
from log_service.cli.standard_input import confirm, name_of, read_all
from log_service.client.schemas.errors import SchemaRegistryError
from log_service.client.schemas.values import (
    AVRO,
    JSON,
    PROTOBUF,
    CompatibilityResult,
    RegisteredSchema,
    Schema,
    SchemaReference,
)
from log_service.common.counts import counted
from log_service.http.schema_registry.values import CompatibilityLevel, Mode

if TYPE_CHECKING:
    from log_service.client import SchemaRegistryClient

Version = int | Literal["latest"]

INCOMPATIBLE: Final = 409
"""A registry's status for a schema that breaks the level of its subject."""
NO_OWN_SETTING: Final = frozenset({40408, 40409})
"""A registry's codes for a subject that has no level or mode of its own."""


class VersionParameter(click.ParamType[Version]):
    """The number of a version, or ``latest``."""

    name = "version"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Version:
        """Return the version. Refuses other texts."""
        if value == "latest":
            return "latest"
        if (
            isinstance(value, str)
            and value.isascii()
            and value.isdigit()
            and 0 < int(value) < 2**31
        ):
            return int(value)
        return self.fail(
            f"{value!r} is neither the number of a version nor latest", parameter, context
        )


VERSION = VersionParameter()


@click.group()
def schemas() -> None:
    """Manage the schemas of a schema registry.

    \b
    A subject holds the versions of one schema: orders-value for the values of
    topic orders, orders-key for its keys. Any registry with Confluent's API will
    do; tidelog's own: tidelog registry serve.
    """


def reference_of(text: str) -> SchemaReference:
    """Parse a reference of the form NAME=SUBJECT:VERSION.

    Raises:
        BadParameter: the text has another form.
    """
    try:
        return SchemaReference.from_text(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--reference") from error


async def read_schema(
    source: BinaryIO, schema_type: str | None, references: Sequence[str]
) -> Schema:
    """Read a schema from a file or from standard input.

    Raises:
        UsageError: its type is not known.
        ClickException: the text is empty, or not text in UTF-8.
    """
    name = name_of(source)
    kind = schema_type_of(name, schema_type)
    found = tuple(map(reference_of, references))
    try:
        text = (await read_all(source)).decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{name} is not text in UTF-8") from error
    return Schema(text=require_schema_text(text, name), schema_type=kind, references=found)


def pretty(schema: Schema) -> str:
    """Return the text of a schema for people: JSON in several lines, Protobuf unchanged."""
    if schema.schema_type == PROTOBUF:
        return schema.text.rstrip("\n")
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema.text


def as_row(found: RegisteredSchema) -> dict[str, Any]:
    """Return a registered schema as plain values."""
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.id,
        "type": found.schema.schema_type,
        "guid": found.guid,
        "references": [each.as_json() for each in found.schema.references],
        "schema": found.schema.text,
    }


def source_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options that name a schema to send."""
    options = (
        click.argument("subject"),
        click.argument("source", type=click.File("rb"), metavar="FILE|-"),
        click.option(
            "--type",
            "schema_type",
            type=click.Choice([AVRO, JSON, PROTOBUF], case_sensitive=False),
            help="Default: by suffix.",
        ),
        click.option(
            "--reference",
            "references",
            multiple=True,
            metavar="NAME=SUBJECT:VERSION",
            help="A schema that this one uses under NAME; may be repeated.",
        ),
        click.option(
            "--normalize", is_flag=True, help="Compare without regard to order and blanks."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def verdict_text(source: BinaryIO, subject: str, result: CompatibilityResult) -> str:
    """Return a text that says whether a schema is compatible, and a line for each reason if not."""
    verdict = "compatible" if result.is_compatible else "not compatible"
    return "\n".join([f"{name_of(source)} is {verdict} with {subject}", *result.messages])


@schemas.command("list", short_help="List subjects.")
@click.argument("prefix", required=False)
@click.option(
    "--versions", "is_all", is_flag=True, help="Show all versions, not the latest of each subject."
)
@click.option(
    "--deleted", is_flag=True, help="Show what was deleted and not removed for good, too."
)
@json_option
@registry_command
async def list_schemas(
    *,
    registry: "SchemaRegistryClient",
    prefix: str | None,
    is_all: bool,
    deleted: bool,
    as_json: bool,
) -> None:
    """List subjects with their latest versions, or those that begin with PREFIX.

    \b
    tidelog schemas list
    tidelog schemas list orders- --versions
    """
    found = await registry.get_schemas(prefix, latest_only=not is_all, deleted=deleted)
    print_rows(
        [as_row(each) for each in found],
        ["subject", "version", "id", "type"],
        as_json=as_json,
        empty=(
            "there are no subjects; see: tidelog schemas register --help"
            if prefix is None
            else f"no subject begins with {prefix!r}"
        ),
        flexible=["subject"],
    )


@schemas.command(short_help="Print a schema.")
@click.argument("subject", required=False)
@click.argument("version", type=VERSION, default="latest")
@click.option(
    "--id",
    "schema_id",
    type=click.IntRange(min=0),
    metavar="N",
    help="The schema with this id, instead of a subject.",
)
@click.option(
    "--raw", is_flag=True, help="Print the text as it was registered, not in several lines."
)
@json_option
@registry_command
async def get(
    *,
    registry: "SchemaRegistryClient",
    subject: str | None,
    version: Version,
    schema_id: int | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Print the text of VERSION of SUBJECT, which is the latest one by default.

    \b
    tidelog schemas get orders-value
    tidelog schemas get orders-value 2 > orders.avsc
    tidelog schemas get --id 7
    """
    if (subject is None) == (schema_id is None):
        raise click.UsageError("name one schema: SUBJECT, or --id")
    if schema_id is not None:
        found = RegisteredSchema(schema=await registry.get_schema(schema_id), id=schema_id)
    else:
        assert subject is not None, "one of them is given"
        found = await registry.get_version(subject, version)
    if as_json:
        print_json(as_row(found))
    else:
        say(found.schema.text if raw else pretty(found.schema))


@schemas.command(short_help="Register a schema.")
@source_arguments
@json_option
@registry_command
async def register(
    *,
    registry: "SchemaRegistryClient",
    subject: str,
    source: BinaryIO,
    schema_type: str | None,
    references: tuple[str, ...],
    normalize: bool,
    as_json: bool,
) -> None:
    """Register the schema of FILE as the next version of SUBJECT.

    A version that the subject has already keeps its id. The suffix tells the type: .avsc is AVRO,
    .json is JSON, .proto is PROTOBUF.

    \b
    tidelog schemas register orders-value orders.avsc
    tidelog schemas register orders-value - --type json < orders
    tidelog schemas register pay-value pay.proto \\
      --reference money.proto=money-value:1
    """
    schema = await read_schema(source, schema_type, references)
    try:
        found = await registry.register_schema(subject, schema, normalize=normalize)
    except SchemaRegistryError as error:
        if error.status != INCOMPATIBLE:
            raise
        result = await registry.check_compatibility(subject, schema, normalize=normalize)
        if result.is_compatible:
            raise  # another change came between
        raise click.ClickException(verdict_text(source, subject, result)) from error
    version = "" if found.version is None else f" is version {found.version},"
    print_result(f"{subject}{version} has id {found.id}", as_row(found), as_json=as_json)


@schemas.command(short_help="Tell whether a schema is compatible.")
@source_arguments
@click.option(
    "--version",
    type=VERSION,
    metavar="N|latest",
    help="Compare with this one.  [default: as the level says]",
)
@json_option
@registry_command
async def check(
    *,
    registry: "SchemaRegistryClient",
    subject: str,
    source: BinaryIO,
    schema_type: str | None,
    references: tuple[str, ...],
    normalize: bool,
    version: Version | None,
    as_json: bool,
) -> None:
    """Tell whether the schema of FILE could be registered under SUBJECT, and why not.

    Nothing is registered. Exit code 1 if it is incompatible.

    \b
    tidelog schemas check orders-value orders.avsc
    """
    schema = await read_schema(source, schema_type, references)
    result = await registry.check_compatibility(subject, schema, version, normalize=normalize)
    values = {
        "subject": subject,
        "is_compatible": result.is_compatible,
        "messages": result.messages,
    }
    print_result(verdict_text(source, subject, result), values, as_json=as_json)
    if not result.is_compatible:
        raise click.exceptions.Exit(1)


@schemas.command(short_help="Delete a subject, or one version.")
@click.argument("subject")
@click.option("--version", type=VERSION, metavar="N|latest", help="Delete this version alone.")
@click.option("--permanent", is_flag=True, help="Remove for good what is deleted already.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@registry_command
async def delete(
    *,
    registry: "SchemaRegistryClient",
    subject: str,
    version: Version | None,
    permanent: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete the versions of SUBJECT. Records that were written with them stay readable.

    With --permanent, versions that are deleted already are removed for good. Their records cannot
    be read any more.

    \b
    tidelog schemas delete orders-value --version 2
    tidelog schemas delete orders-value --permanent
    """
    what = subject if version is None else f"version {version} of {subject}"
    if not yes:
        await confirm(
            f"Remove {what} for good?" if permanent else f"Delete {what}?", "nothing was deleted"
        )
    if version is None:
        versions = await registry.delete_subject(subject, permanent=permanent)
    else:
        versions = [await registry.delete_version(subject, version, permanent=permanent)]
    done = "removed for good" if permanent else "deleted"
    text = (
        f"{subject}: {counted(len(versions), 'version')} {done} ({', '.join(map(str, versions))})"
    )
    print_result(
        text, {"subject": subject, "versions": versions, "is_permanent": permanent}, as_json=as_json
    )


def setting_arguments(
    value: str, choices: Iterable[str]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the arguments of ``config`` and ``mode``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = (
            click.argument("subject", required=False),
            click.argument(
                "value",
                required=False,
                metavar=f"[{value}]",
                type=click.Choice(list(choices), case_sensitive=False),
            ),
            click.option(
                "--global",
                "global_value",
                metavar=value,
                type=click.Choice(list(choices), case_sensitive=False),
                help="Set the one of all subjects without their own.",
            ),
            click.option(
                "--unset",
                is_flag=True,
                help="Remove the subject's own, so that the global one counts.",
            ),
        )
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def validate_setting(
    subject: str | None, value: str | None, global_value: str | None, *, is_unset: bool
) -> None:
    """Refuse arguments that contradict each other. Raises UsageError."""
    if global_value is not None and (subject is not None or is_unset):
        raise click.UsageError("--global is about no SUBJECT, and cannot be unset")
    if is_unset and (subject is None or value is not None):
        raise click.UsageError("--unset needs a SUBJECT, and nothing else")


def print_setting(
    name: str, subject: str | None, value: str, *, is_own: bool, more: Any = None, as_json: bool
) -> None:
    """Print a level or a mode, and whether it is the subject's own or the global one."""
    found = {"subject": subject, name: value, "is_own": is_own, **(more or {})}
    origin = "" if is_own else f" (the global {name})"
    print_result(f"{subject or 'all subjects'}: {value}{origin}", found, as_json=as_json)


@schemas.command(short_help="Show or set a compatibility level.")
@setting_arguments("LEVEL", CompatibilityLevel)
@json_option
@registry_command
async def config(
    *,
    registry: "SchemaRegistryClient",
    subject: str | None,
    value: str | None,
    global_value: str | None,
    unset: bool,
    as_json: bool,
) -> None:
    """Show the compatibility level of SUBJECT, or set it to LEVEL; without SUBJECT the global one.

    \b
    LEVEL is NONE, BACKWARD, FORWARD or FULL, or one of the latter three with
    _TRANSITIVE, which compares with all versions and not the last one alone.
    tidelog schemas config orders-value full_transitive
    tidelog schemas config --global BACKWARD
    """
    validate_setting(subject, value, global_value, is_unset=unset)
    wanted = value or global_value
    if wanted is not None:
        await registry.set_config({"compatibility": wanted}, subject)
    elif unset:
        await registry.delete_config(subject)
    found, is_own = await own_or_global(registry.get_config, subject)
    level = found.pop("compatibilityLevel", None) or found.pop("compatibility", "")
    print_setting("level", subject, level, is_own=is_own, more=found, as_json=as_json)


@schemas.command(short_help="Show or set what may be changed.")
@setting_arguments("MODE", Mode)
@click.option("--force", is_flag=True, help="Set IMPORT although the subject has schemas.")
@json_option
@registry_command
async def mode(
    *,
    registry: "SchemaRegistryClient",
    subject: str | None,
    value: str | None,
    global_value: str | None,
    unset: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Show the mode of SUBJECT, or set it to MODE; without SUBJECT the global one.

    \b
    READWRITE takes changes, READONLY takes none, IMPORT takes schemas with ids.
    tidelog schemas mode orders-value READONLY
    tidelog schemas mode --global READWRITE
    """
    validate_setting(subject, value, global_value, is_unset=unset)
    wanted = value or global_value
    if wanted is not None:
        await registry.set_mode(wanted, subject, force=force)
    elif unset:
        assert subject is not None, "--unset needs a subject"
        await registry.delete_mode(subject)
    found, is_own = await own_or_global(registry.get_mode, subject)
    print_setting("mode", subject, found, is_own=is_own, as_json=as_json)


async def own_or_global(get: Callable[..., Any], subject: str | None) -> tuple[Any, bool]:
    """Return a setting of a subject, and whether it is its own. Otherwise it is the global one."""
    try:
        return (
            await get() if subject is None else await get(subject, default_to_global=False)
        ), True
    except SchemaRegistryError as error:
        if error.code not in NO_OWN_SETTING:
            raise
    return await get(subject), False


@schemas.command(short_help="Compare two versions.")
@click.argument("subject")
@click.argument("first", type=VERSION, metavar="V1")
@click.argument("second", type=VERSION, metavar="V2", default="latest")
@json_option
@registry_command
async def diff(
    *,
    registry: "SchemaRegistryClient",
    subject: str,
    first: Version,
    second: Version,
    as_json: bool,
) -> None:
    """Show what changed between two versions of SUBJECT, as a unified diff.

    \b
    tidelog schemas diff orders-value 1 2
    tidelog schemas diff orders-value 1 latest
    """
    before, after = [await registry.get_version(subject, each) for each in (first, second)]
    lines = difference(before, after)
    values = {"subject": subject, "from": before.version, "to": after.version, "diff": lines}
    same = f"versions {before.version} and {after.version} of {subject} have the same text"
    print_result("\n".join(lines) or same, values, as_json=as_json)


def difference(before: RegisteredSchema, after: RegisteredSchema) -> list[str]:
    """Return the lines of a unified diff of two schemas and their references."""
    first, second = [
        f"{each.subject} version {each.version} (id {each.id})" for each in (before, after)
    ]
    old, new = [_lines(each.schema) for each in (before, after)]
    return list(unified_diff(old, new, first, second, lineterm=""))


def _lines(schema: Schema) -> list[str]:
    return [*pretty(schema).splitlines(), *map(_reference_line, schema.references)]


def _reference_line(reference: SchemaReference) -> str:
    return f"reference {reference.name}={reference.subject}:{reference.version}"
