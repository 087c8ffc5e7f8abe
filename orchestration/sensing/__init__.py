"""Sensors: what starts runs and what tells of lag, drift and failures. Each has one pure ``decide_...`` function and a thin shell.

``new_records`` decides which tables have something to read, ``topic_sensor`` waits for it; ``progress`` decides what of watermarks and lag
is worth an event; ``objectives`` judges whether tables keep up; ``automation`` evaluates the conditions of everything downstream;
``sources`` looks at sources; ``schema_drift`` and ``run_failures`` watch the lake and the runs; ``watchdog`` watches the sensors and,
with ``topic_drift``, whether topics are as they are declared;
``groups`` tells how far the groups of other programs are behind. ``alert_hooks`` sends alerts to where the settings say, ``failing_assets``
tells the terminal what fails now, ``standard`` is what a project gets that declares no sensors.
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
