"""Connects commands to a schema registry: options, login, and advice after some of its errors.

The registry's client needs the extra ``schemas``, so it is imported only when a command needs the
registry. A password is never an argument, but the URL in the environment may have a user and a
password.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

import click

from log_service.cli.passwords import asked_password
from log_service.cli.record_lines import Render
from log_service.cli.running import run
from log_service.cli.standard_input import STANDARD_INPUT, name_of
from log_service.client.schemas.errors import NO_RESPONSE, SchemaRegistryError
from log_service.common.errors import ConfigError
from log_service.common.listeners import DEFAULT_REGISTRY_PORT
from log_service.config.client_security import SSL_SETTINGS

if TYPE_CHECKING:
    from log_service.client import SchemaRegistryClient

REGISTRY_SETTING: Final = "TIDELOG_SCHEMA_REGISTRY_URL"
PORT_SETTING: Final = "TIDELOG_REGISTRY_PORT"
PREFIX_OF_SETTINGS: Final = "TIDELOG_SCHEMA_REGISTRY_"
LOGINS: Final = ("basic_auth_user_info", "bearer_auth_token")
RECORDS_PREFIX: Final = "registry-"
"""The prefix of registry options in commands that have a user and keys of their own."""
DEFAULT_REGISTRY: Final = f"http://127.0.0.1:{DEFAULT_REGISTRY_PORT}"
RenderAll = Callable[[Sequence[Any]], Awaitable[bytes]]
"""Returns the bytes that a command prints for records."""
PATIENCE: Final[Mapping[str, Any]] = {"timeout": 30.0, "max_retries": 1, "retries_wait_ms": 200}
"""Client settings that give up early, because a person wants to know that nothing listens."""
ADVICE: Final[Mapping[int, str]] = {
    NO_RESPONSE: (
        "start one with 'tidelog up' or 'tidelog registry serve', or name another with --registry"
    ),
    401: "log in with --{prefix}user NAME or --{prefix}cert FILE",
    40401: "see: tidelog schemas list",
    40402: "see: tidelog schemas list --versions",
    40405: "delete it without --permanent first",
}
"""Advice by the registry's code, or else by the HTTP status."""
File = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """The URL of a registry, and the settings of its client.

    ``prefix`` is the prefix of the options' names.
    """

    url: str
    settings: Mapping[str, Any] = field(repr=False)
    prefix: str = ""

    @classmethod
    def default(cls) -> Self:
        """Return the access to the default registry."""
        url = default_registry()
        return cls(url=url, settings=settings_of_environment(url), prefix=RECORDS_PREFIX)


def default_registry() -> str:
    """Return the URL of the registry that ``tidelog up`` starts.

    The environment may name another port for it.
    """
    port = os.environ.get(PORT_SETTING, "").strip()
    return f"http://127.0.0.1:{port}" if port.strip("0") else DEFAULT_REGISTRY


def settings_of_environment(url: str) -> dict[str, str]:
    """Return the settings of logins and TLS in the environment.

    They apply only to the registry that the environment names, because another one would see
    secrets that are not meant for it.
    """
    if url != (os.environ.get(REGISTRY_SETTING) or default_registry()):
        return {}
    named = {
        name: os.environ.get(f"{PREFIX_OF_SETTINGS}{name.upper()}")
        for name in (*LOGINS, *SSL_SETTINGS)
    }
    return {name: text for name, text in named.items() if text}


def checked_url(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Return the URL of a registry if it is valid. Used by click while it parses the arguments.

    Raises:
        BadParameter: the URL is not valid.
    """
    from log_service.client.schemas.settings import (  # noqa: PLC0415 - help has no use for it
        RegistryClientSettings,
    )

    try:
        if value:
            RegistryClientSettings.of(value, {})
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error
    return value


def registry_options(prefix: str = "", *, has_default: bool = True) -> Callable[..., Any]:
    """Return a decorator that adds the options of a registry.

    ``prefix`` comes before all names but ``--registry``, for commands that have other options of
    the same names.
    """
    options = (
        click.option(
            "--registry",
            "registry_url",
            metavar="URL",
            default=default_registry if has_default else None,
            envvar=REGISTRY_SETTING,
            show_default=DEFAULT_REGISTRY if has_default else False,
            show_envvar=True,
            callback=checked_url,
            help="The schema registry; several with commas.",
        ),
        click.option(
            f"--{prefix}user",
            "registry_user",
            metavar="NAME",
            help="Log in to the registry as this user.",
        ),
        click.option(
            f"--{prefix}password-file",
            "registry_password_file",
            type=click.File("r", encoding="utf-8"),
            metavar="FILE",
            help="Read that password from the first line of FILE; without it a person is asked.",
        ),
        click.option(
            f"--{prefix}cacert",
            "registry_cacert",
            type=File,
            metavar="FILE",
            help="Authorities to trust, in PEM.",
        ),
        click.option(
            f"--{prefix}cert",
            "registry_cert",
            type=File,
            metavar="FILE",
            help="A certificate with its key, in PEM.",
        ),
    )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def take_access(given: dict[str, Any], prefix: str = "") -> RegistryAccess | None:
    """Take the options of a registry out of ``given``, and ask for a password if a user logs in.

    Return None if no registry is named. Call it before the event loop starts, because it may read
    the password from the terminal.

    Raises:
        UsageError: options contradict each other.
    """
    url, user, file, cacert, cert = (
        given.pop(f"registry_{name}") for name in ("url", "user", "password_file", "cacert", "cert")
    )
    if user is None and file is not None:
        raise click.UsageError(f"--{prefix}password-file needs --{prefix}user")
    if not url:
        return None
    settings = settings_of_environment(url)
    if cacert is not None:
        settings["ssl_ca"] = str(cacert)
    if cert is not None:
        settings |= {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(cert)}
    if user is not None:
        settings = {name: text for name, text in settings.items() if name not in LOGINS}
        settings["basic_auth_user_info"] = _login(user, file, prefix)
    return RegistryAccess(url=url, settings=settings, prefix=prefix)


def _login(user: str, file: TextIO | None, prefix: str) -> str:
    if ":" in user:
        raise click.UsageError(
            f"--{prefix}user is {user!r}: HTTP allows no colon in the name of a user"
        )
    return f"{user}:{asked_password(file, user, is_new=False).reveal()}"


def registry_command(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Decorate an async command that uses a registry: run it, and add the options of such commands.

    The command gets the registry's client as ``registry``.
    """

    def call(**given: Any) -> None:
        _refuse_two_from_stdin(given)
        access = take_access(given)
        if access is None:
            raise click.UsageError(
                f"--registry (or {REGISTRY_SETTING}) is empty: name a schema registry"
            )
        run(_asked, command, access, given)

    decorated: Callable[..., None] = registry_options()(update_wrapper(call, command))
    return decorated


async def _asked(
    command: Callable[..., Awaitable[None]], access: RegistryAccess, given: Mapping[str, Any]
) -> None:
    async with open_registry(access) as registry:
        await command(registry=registry, **given)


def _refuse_two_from_stdin(given: Mapping[str, Any]) -> None:
    """Refuse a schema and a password that both come from standard input."""
    streams = (given["registry_password_file"], given.get("source"))
    if all(each is not None and name_of(each) == STANDARD_INPUT for each in streams):
        raise click.UsageError("the schema and the password cannot both be standard input")


def with_registry(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a registry to a command of a cluster.

    The command gets them as ``registry``, which is None if no registry is named.
    """

    def call(**given: Any) -> None:
        access = take_access(given, RECORDS_PREFIX)
        command(registry=access, **given)

    decorated: Callable[..., None] = registry_options(RECORDS_PREFIX, has_default=False)(
        update_wrapper(call, command)
    )
    return decorated


@contextmanager
def extra_needed() -> Iterator[None]:
    """Turn a failed import in the block into a ConfigError that names the missing extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(str(error)) from error


@asynccontextmanager
async def open_registry(access: RegistryAccess) -> AsyncIterator["SchemaRegistryClient"]:
    """Open a client of a registry for a block.

    Raises:
        ConfigError: settings contradict each other, or the extra with the client is missing.
        ClickException: the registry refused a request in the block, and there is advice for that.
    """
    with extra_needed():
        from log_service.cli.registry_client import CommandRegistryClient  # noqa: PLC0415 - an extra
    async with CommandRegistryClient(access.url, **PATIENCE, **access.settings) as registry:
        try:
            yield registry
        except SchemaRegistryError as error:
            advice = ADVICE.get(error.code) or ADVICE.get(error.status)
            if advice is None:
                raise
            raise click.ClickException(f"{error}; {advice.format(prefix=access.prefix)}") from error


@asynccontextmanager
async def open_renderer(
    access: RegistryAccess | None, render: Render, *, is_verbose: bool
) -> AsyncIterator[RenderAll]:
    """Yield a function that formats records, decoded by the schemas of a registry.

    Without a registry their bytes are printed unchanged.
    """

    async def render_bytes(records: Sequence[Any]) -> bytes:
        return b"".join(map(render, records))

    if access is None:
        yield render_bytes
        return
    with extra_needed():
        from log_service.cli.record_schemas import RecordDecoder  # noqa: PLC0415 - an extra
    async with open_registry(access) as registry:
        decode = RecordDecoder(registry, is_verbose=is_verbose)

        async def render_decoded(records: Sequence[Any]) -> bytes:
            return b"".join(map(render, await decode(records)))

        yield render_decoded
