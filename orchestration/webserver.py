"""Dagster's webserver: ``python -m orchestration.webserver ...``, arguments as Dagster's. It asks the code server less (``code_watch``)."""

from dagster_webserver.cli import main

from orchestration.code_watch import ask_seldom

if __name__ == "__main__":
    ask_seldom()
    main()  # type: ignore[no-untyped-call]
