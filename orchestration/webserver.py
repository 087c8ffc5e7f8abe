"""Dagster's webserver: ``python -m orchestration.webserver ...``, arguments as Dagster's.

It asks the code server less (``code_watch``), refuses what other sites ask it (``ui_guard``), and asks
for a login where the settings say so (``ui_login``).
"""

from collections.abc import Collection
from typing import Any

from dagster_webserver import cli

from orchestration.code_watch import ask_seldom
from orchestration.settings import process_environment, ui_hosts, ui_login
from orchestration.ui_guard import GuardedUi
from orchestration.ui_login import FORM_PATHS, LoginUi, read_only_for_readers
from orchestration.ui_sessions import Sessions
from orchestration.ui_users import ClusterUsers

CREATE = "create_app_from_workspace_process_context"
"""Dagster's function that makes the application, by its name in the module of the command."""


def main() -> None:
    """Run the webserver until it is told to stop."""
    ask_seldom()
    login_file = ui_login(process_environment())
    guard(ui_hosts(process_environment()), None if login_file is None else ClusterUsers.of_file(login_file))
    cli.main()  # type: ignore[no-untyped-call]


def guard(allowed_hosts: Collection[str], users: ClusterUsers | None = None) -> None:
    """Put ``ui_guard`` before the application that Dagster's command serves, and a login of ``users`` where they are given."""
    create = vars(cli)[CREATE]

    def create_guarded(context: Any, *arguments: Any, **named: Any) -> GuardedUi:
        if users is None:
            return GuardedUi(create(context, *arguments, **named), allowed_hosts)
        read_only_for_readers(context)
        return GuardedUi(LoginUi(create(context, *arguments, **named), Sessions(users)), allowed_hosts, FORM_PATHS)

    vars(cli)[CREATE] = create_guarded


if __name__ == "__main__":
    main()
