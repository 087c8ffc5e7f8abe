"""The group of all commands, which imports a command's module only for its call or its help.

So no command has to wait for the imports of another one.
"""

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import click

from log_service import __version__
from log_service.cli.explain import explain
from log_service.cli.output import checked_servers, command_config_option, say
from log_service.cli.project_settings import read_settings_of
from log_service.common.errors import TidelogError
from log_service.common.installation_names import SERVERS_SETTING
from log_service.common.log_lines import LineFormatter

COMMANDS: dict[str, tuple[str, str]] = {
    "up": (
        "log_service.cli.up:up",
        "Start everything: broker, Spark, Dagster. Ctrl-C stops it in order.",
    ),
    "status": ("log_service.cli.status:status", "Tell what runs, and where."),
    "demo": ("log_service.cli.demo:demo", "Show the whole path on real data."),
    "init": ("log_service.cli.init:init", "Write a new project for `tidelog up`."),
    "serve": (
        "log_service.cli.serve:serve",
        "Run one broker in the foreground from a properties file.",
    ),
    "storage": (
        "log_service.cli.storage:storage",
        "Format the directories of a node of a cluster.",
    ),
    "topics": (
        "log_service.cli.topics:topics",
        "Create, list, describe, change and delete topics.",
    ),
    "configs": (
        "log_service.cli.configs:configs",
        "Show and change configs of topics, brokers, the cluster, groups.",
    ),
    "quotas": (
        "log_service.cli.quotas:quotas",
        "Bound what users, clients and addresses may ask for.",
    ),
    "offsets": (
        "log_service.cli.offsets:offsets",
        "Tell where partitions begin and end, and which offset a time has.",
    ),
    "records": ("log_service.cli.records:records", "Delete records."),
    "groups": (
        "log_service.cli.groups:groups",
        "Consumer groups: lag, members, resetting and deleting offsets.",
    ),
    "users": ("log_service.cli.users:users", "Users with a password (SCRAM): list, add, remove."),
    "acls": ("log_service.cli.acls:acls", "Who may do what: list, add and remove ACLs."),
    "certificates": (
        "log_service.cli.certificates:certificates",
        "Identities of services on a secured installation: issue, list.",
    ),
    "tokens": ("log_service.cli.tokens:tokens", "Delegation tokens: create, list, renew, expire."),
    "mirror": (
        "log_service.cli.mirror:mirror",
        "Copy topics of one cluster into another, exactly once.",
    ),
    "registry": (
        "log_service.cli.registry:registry",
        "Serve the schemas of records, as Confluent's schema registry does.",
    ),
    "rest": (
        "log_service.cli.rest:rest",
        "Serve a cluster over HTTP, as Confluent's REST proxy does.",
    ),
    "console": ("log_service.cli.console:console", "Serve the web console of a cluster."),
    "schemas": (
        "log_service.cli.schemas:schemas",
        "Schemas in a registry: list, get, register, check, delete.",
    ),
    "transactions": (
        "log_service.cli.transactions:transactions",
        "Transactions: states, producers, and those that hang.",
    ),
    "cluster": (
        "log_service.cli.cluster:cluster",
        "How the cluster is, and where its replicas go.",
    ),
    "produce": ("log_service.cli.produce:produce", "Send records from standard input or a file."),
    "consume": ("log_service.cli.consume:consume", "Print the records of a topic."),
    "top": ("log_service.cli.top:top", "Watch brokers, topics and groups in a terminal."),
    "log": ("log_service.cli.log_dump:log", "Look into a log's files on disk."),
    "sql": ("orchestration.cli.sql:sql", "Ask tables, marts, dead letters and topics in SQL."),
    "lag": (
        "orchestration.cli.lag:lag",
        "Show the rows of tables, and their lag behind their topics.",
    ),
    "replay": (
        "orchestration.cli.replay:replay",
        "Read records of a table's topic once more into the table.",
    ),
    "take-over": (
        "orchestration.cli.take_over:take_over",
        "Make a table of a database the project's own, which is another's.",
    ),
    "dead-letters": (
        "orchestration.cli.dead_letters:dead_letters",
        "The records that tables rejected: list, show, fix, replay.",
    ),
    "completion": (
        "log_service.cli.completion:completion",
        "Print a script that makes a shell complete commands.",
    ),
}
OWN_SETTINGS = frozenset({"up", "demo", "init", "serve", "log", "completion"})
"""Commands that read the settings of a project named by their options, or read none."""


SPEAKING_FOR_THEMSELVES = ("log_service.client.producer.sender", "log_service.rpc.pool")
"""Loggers whose warnings commands leave out.

The commands say themselves which records were not delivered, and that no server could be reached.
"""


class LazyGroup(click.Group):
    """A click group that has only the name and one line of each command.

    It imports a command when the command is needed.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. An unknown one is refused with similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], COMMANDS)
            if not near:
                raise
            raise click.UsageError(
                f"{error.message} Did you mean {' or '.join(near)}?", ctx
            ) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        If the reader of its output stops early, as ``head`` does, the command ends without an
        error.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Python flushes its buffer at exit. Without this, that flush would raise again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="tidelog")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show what happens inside, and tracebacks of errors."
)
@click.option(
    "-b",
    "--bootstrap-servers",
    metavar="HOST:PORT[,...]",
    callback=checked_servers,
    help="The same option of every command that asks a cluster.",
)
@command_config_option
@click.pass_context
def tidelog(ctx: click.Context, *, verbose: bool, bootstrap_servers: str | None) -> None:
    """A log service that speaks the Kafka protocol, and pipelines over it.

    \b
    First steps:
      tidelog demo                               the whole path on real data
      tidelog up                                 everything, for your project
      echo '{"n": 1}' | tidelog produce numbers  a record into a topic
      tidelog consume numbers --from-beginning   and back out
    """
    ctx.obj = {"verbose": verbose}
    if ctx.invoked_subcommand in COMMANDS and ctx.invoked_subcommand not in OWN_SETTINGS:
        read_settings_of(Path())
    if bootstrap_servers is not None:
        os.environ[SERVERS_SETTING] = bootstrap_servers
    if not verbose:
        for name in SPEAKING_FOR_THEMSELVES:
            logging.getLogger(name).setLevel(logging.ERROR)
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, handlers=[handler])


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and turn every error into a sentence and an exit code.

    The default arguments are those of this process.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    is_verbose = bool({"-v", "--verbose"} & set(given))
    try:
        exit_code = tidelog.main(given, prog_name="tidelog", standalone_mode=False)
        sys.exit(exit_code if isinstance(exit_code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except (TidelogError, OSError) as error:
        if is_verbose:
            raise
        say(f"Error: {explain(error)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
