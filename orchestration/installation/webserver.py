"""Runs Dagster's webserver: ``python -m orchestration webserver ...`` takes Dagster's arguments.

It sends fewer requests to the code server (``code_watch``), refuses requests of other sites
(``ui.guard``), and asks for a login if the settings say so (``ui.login``).
"""

from collections.abc import Collection
from typing import Any

from dagster_webserver import cli

from orchestration.installation.code_watch import ask_seldom
from orchestration.installation.ui.guard import GuardedUi
from orchestration.installation.ui.login import FORM_PATHS, LoginUi, read_only_for_readers
from orchestration.installation.ui.sessions import Sessions
from orchestration.installation.ui.users import ClusterUsers
from orchestration.settings import process_environment, ui_hosts, ui_login

CREATE = "create_app_from_workspace_process_context"
"""Dagster's function that makes the application, by its name in the module of the command."""


def main() -> None:
    """Run the webserver until a signal stops it."""
    ask_seldom()
    login_file = ui_login(process_environment())
    guard(
        ui_hosts(process_environment()),
        None if login_file is None else ClusterUsers.of_file(login_file),
    )
    cli.main()  # type: ignore[no-untyped-call]


def guard(allowed_hosts: Collection[str], users: ClusterUsers | None = None) -> None:
    """Wrap the application that Dagster's command serves in ``ui.guard``.

    With ``users`` the application is wrapped in a login, too.
    """
    create = vars(cli)[CREATE]

    def create_guarded(context: Any, *arguments: Any, **named: Any) -> GuardedUi:
        if users is None:
            return GuardedUi(create(context, *arguments, **named), allowed_hosts)
        read_only_for_readers(context)
        return GuardedUi(
            LoginUi(create(context, *arguments, **named), Sessions(users)),
            allowed_hosts,
            FORM_PATHS,
        )

    vars(cli)[CREATE] = create_guarded


if __name__ == "__main__":
    main()
