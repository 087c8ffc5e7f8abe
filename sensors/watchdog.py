"""Judges whether tables keep up, and tells of sensors that fail or hang; give it ``notify=`` to send alerts elsewhere."""

from orchestration import send_alert, watchdog_sensor

watchdog = watchdog_sensor(notify=send_alert)
