"""Starts the runs of sources when files arrive or rows change.

``notify=`` sends alerts elsewhere.
"""

from orchestration import send_alert, source_sensor

sources = source_sensor(notify=send_alert)
