"""Judges whether tables meet their lag objectives, and reports sensors that fail or hang.

Alerts go to the webhook and e-mail addresses of the settings. Pass another function as ``notify=``
to send them elsewhere.
"""

from orchestration import send_alert, watchdog_sensor

watchdog = watchdog_sensor(notify=send_alert)
