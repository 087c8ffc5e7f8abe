"""``tidelog status`` shows the components that the supervisor of a data directory runs."""

from dataclasses import asdict
from pathlib import Path

import click

from log_service.cli.output import data_option, json_option, print_rows
from log_service.supervisor import state
from log_service.supervisor.spec import CODE


@click.command()
@data_option("The installation's data directory.")
@json_option
def status(*, data: Path, as_json: bool) -> None:
    """Show the components that run on a data directory, with their addresses.

    Exit code 1 if nothing runs, or if something is not ready.
    """
    components = state.read(data)
    rows = [asdict(component) for component in components]
    for row in rows:
        row["state"] = "at fault" if row["state"] == "ready" and row["complaint"] else row["state"]
        row["state"] = (
            f"waiting for {', '.join(row['waits_for'])}" if row["waits_for"] else row["state"]
        )
        row["restarts"] = row.pop("restart_count")
        row["owner"] = (
            f"yours ({row['external_setting']})" if row["external_setting"] else "tidelog"
        )
    is_starting = not components and state.is_locked(data)
    print_rows(
        rows,
        ["name", "state", "address", "owner", "pid", "restarts"],
        as_json=as_json,
        empty=(
            f"tidelog is starting on {data}"
            if is_starting
            else f"nothing runs on {data}; start it with: tidelog up --data {data}"
        ),
    )
    if components and not as_json:
        for row in rows:
            complaints = [f"{row['name']}: {line}\n" for line in row["complaint"].splitlines()]
            click.echo("".join(["\n" if complaints else "", *complaints]), nl=False)
        click.echo(
            "".join(f"\n{row['name']}: {row['failure']}\n" for row in rows if row["failure"]),
            nl=False,
        )
        click.echo(
            "".join(f"\nmetrics  {row['metrics_url']}" for row in rows if row["metrics_url"])
        )
        click.echo(f"logs     {Path(components[0].log_path).parent}")
        if any(row["name"] == CODE for row in rows):
            click.echo("tables   tidelog lag shows their rows and lag")
    if not components or any(
        component.state != "ready" or component.complaint for component in components
    ):
        raise click.exceptions.Exit(1)
