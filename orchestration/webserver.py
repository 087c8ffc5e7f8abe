"""Dagster's webserver: ``python -m orchestration.webserver ...``, arguments as Dagster's.

It asks the code server less (``code_watch``), and refuses what other sites ask it (``ui_guard``).
"""

from collections.abc import Collection
from typing import Any

from dagster_webserver import cli

from orchestration.code_watch import ask_seldom
from orchestration.settings import process_environment, ui_hosts
from orchestration.ui_guard import GuardedUi

CREATE = "create_app_from_workspace_process_context"
"""Dagster's function that makes the application, by its name in the module of the command."""


def main() -> None:
    """Run the webserver until it is told to stop."""
    ask_seldom()
    guard(ui_hosts(process_environment()))
    cli.main()  # type: ignore[no-untyped-call]


def guard(allowed_hosts: Collection[str]) -> None:
    """Put ``ui_guard`` before the application that Dagster's command serves."""
    create = vars(cli)[CREATE]

    def create_guarded(*arguments: Any, **named: Any) -> GuardedUi:
        return GuardedUi(create(*arguments, **named), allowed_hosts)

    vars(cli)[CREATE] = create_guarded


if __name__ == "__main__":
    main()
