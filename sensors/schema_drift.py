"""Reports changes in the shape of a table or of a topic's records."""

from orchestration import schema_drift_sensor, send_alert

schema_drift = schema_drift_sensor(notify=send_alert)
