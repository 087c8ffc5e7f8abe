"""Sensors, which start runs and report lag, drift and failures.

Each sensor has one pure ``decide_...`` function and a thin shell.

- ``new_records``: the decision which tables have something to read.
- ``topic_sensor``: the sensor that waits for new records and starts runs.
- ``past_runs``: failures in a row, and when the next run is due. ``retries``: when a failed asset
  is tried again.
- ``progress``: the decision which watermarks and lags are worth an event.
- ``objectives``: the checks that tables meet their lag objectives.
- ``automation``: the automation conditions of everything downstream.
- ``sources``: the sensor that looks at sources and starts their runs.
- ``schema_drift``: changes in the shape of tables and records. ``registry_drift``: new versions of
  the subjects of topics.
- ``run_failures``: alerts for failed runs.
- ``watchdog``: the check of the sensors, of lag objectives, and of declared topics.
- ``topic_drift``: the differences between topics and their declarations.
- ``groups``: the lag of other programs' groups.
- ``alert_hooks``: the webhook and e-mail that send alerts.
- ``failing_assets``: the assets that fail now, for the terminal.
- ``standard``: the sensors of a project that declares none.
"""

from orchestration.sensing.alert_hooks import send_alert
from orchestration.sensing.automation import automation_sensor
from orchestration.sensing.groups import GroupLag, decide_groups, group_sensor
from orchestration.sensing.new_records import TableState, decide_runs
from orchestration.sensing.objectives import lag_objective
from orchestration.sensing.progress import Progress, decide_events
from orchestration.sensing.run_failures import Alert, decide_alert, run_failure_alerts
from orchestration.sensing.schema_drift import decide_drift, schema_drift_sensor
from orchestration.sensing.sources import decide_looks, source_sensor
from orchestration.sensing.standard import standard_sensors
from orchestration.sensing.topic_sensor import topic_sensor
from orchestration.sensing.watchdog import decide_sensor_alert, watchdog_sensor

__all__ = [
    "Alert",
    "GroupLag",
    "Progress",
    "TableState",
    "automation_sensor",
    "decide_alert",
    "decide_drift",
    "decide_events",
    "decide_groups",
    "decide_looks",
    "decide_runs",
    "decide_sensor_alert",
    "group_sensor",
    "lag_objective",
    "run_failure_alerts",
    "schema_drift_sensor",
    "send_alert",
    "source_sensor",
    "standard_sensors",
    "topic_sensor",
    "watchdog_sensor",
]
