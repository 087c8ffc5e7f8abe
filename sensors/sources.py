"""Starts the runs of sources when files arrive or rows change.

Alerts go to the webhook and e-mail addresses of the settings. Pass another function as ``notify=``
to send them elsewhere.
"""

from orchestration import send_alert, source_sensor

sources = source_sensor(notify=send_alert)
