"""Schedules of maintenance: when the assets of ``orchestration.maintenance`` run.

If the daemon was off at a scheduled time, it starts one run when it is on again.
"""

import dagster as dg

HOURLY = "7 * * * *"
NIGHTLY = "37 3 * * *"


def asset_schedule(asset: dg.AssetsDefinition, cron_schedule: str) -> dg.ScheduleDefinition:
    """Return a schedule, turned on by default, that materializes one asset at times in UTC."""
    name = "_".join(asset.key.path)
    job = dg.define_asset_job(f"{name}_job", selection=dg.AssetSelection.assets(asset))
    return dg.ScheduleDefinition(
        name=name,
        job=job,
        cron_schedule=cron_schedule,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
