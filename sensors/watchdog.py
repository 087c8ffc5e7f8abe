"""Judges whether tables meet their lag objectives, and reports sensors that fail or hang.

``notify=`` sends alerts elsewhere.
"""

from orchestration import send_alert, watchdog_sensor

watchdog = watchdog_sensor(notify=send_alert)
