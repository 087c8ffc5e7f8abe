"""The sensor that evaluates automation conditions.

The platform declares its own sensor, because Dagster's default one is off until a person turns it
on.
"""

import dagster as dg

INTERVAL_S = 5


def automation_sensor(
    *, name: str = "downstream", interval_s: int = INTERVAL_S
) -> dg.AutomationConditionSensorDefinition:
    """Return the sensor that starts runs of tables, marts and SQL tables whose inputs changed."""
    return dg.AutomationConditionSensorDefinition(
        name=name,
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts what is downstream of a table that changed",
    )
