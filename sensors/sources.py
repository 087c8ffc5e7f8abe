"""Starts the runs of sources: files that are dropped, rows that change; give it ``notify=`` to send alerts elsewhere."""

from orchestration import send_alert, source_sensor

sources = source_sensor(notify=send_alert)
