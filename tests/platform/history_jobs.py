"""The job replays over the assets of ``assets_world``.

A test runs it, and reads the asset's events.
"""

from typing import Any

import dagster as dg

from orchestration.transforms.dagster_views.replays import NODE
from orchestration.transforms.kinds import kinds_of
from tests.platform.assets_world import ASSETS, World

MADE = [kind.definitions() for kind in kinds_of(ASSETS)]
(HISTORY,), (JOB,) = (
    [one for made in MADE for one in made.assets],
    [one for made in MADE for one in made.jobs],
)


def run_job(world: World, config: dict[str, Any]) -> dg.ExecuteInProcessResult:
    resolved = dg.Definitions(
        jobs=[JOB], resources=world.resources, executor=dg.in_process_executor
    ).resolve_job_def(JOB.name)
    return resolved.execute_in_process(
        {"ops": {NODE: {"config": config}}}, instance=world.instance, raise_on_error=False
    )


def output_of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = [event for event in result.all_events if event.event_type_value == "STEP_OUTPUT"]
    return {label: one.value for label, one in event.step_output_data.metadata.items()}
