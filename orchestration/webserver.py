"""Dagster's webserver: ``python -m orchestration.webserver ...``, arguments as Dagster's. It asks the code server less (``code_watch``)."""

from dagster_webserver.cli import main as run_webserver

from orchestration.code_watch import ask_seldom


def main() -> None:
    """Run the webserver until it is told to stop."""
    ask_seldom()
    run_webserver()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
