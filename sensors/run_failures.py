"""Tells of runs that failed; give it ``notify=`` to send alerts elsewhere."""

from orchestration import run_failure_alerts, send_alert

run_failures = run_failure_alerts(notify=send_alert)
