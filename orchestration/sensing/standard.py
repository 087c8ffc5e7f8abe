"""The sensors of a project that declares none. They send alerts as the settings say."""

import dagster as dg

from orchestration.sensing.alert_hooks import send_alert
from orchestration.sensing.automation import automation_sensor
from orchestration.sensing.groups import group_sensor
from orchestration.sensing.run_failures import run_failure_alerts
from orchestration.sensing.schema_drift import schema_drift_sensor
from orchestration.sensing.sources import source_sensor
from orchestration.sensing.topic_sensor import topic_sensor
from orchestration.sensing.watchdog import watchdog_sensor


def standard_sensors(*, has_sources: bool = True) -> list[dg.SensorDefinition]:
    """Return one sensor of each kind.

    Without ``has_sources`` the sensor of sources is left out, because it would tick every five
    seconds for nothing.
    """
    return [
        topic_sensor(),
        *([source_sensor(notify=send_alert)] if has_sources else []),
        automation_sensor(),
        schema_drift_sensor(notify=send_alert),
        run_failure_alerts(notify=send_alert),
        watchdog_sensor(notify=send_alert),
        group_sensor(),
    ]
