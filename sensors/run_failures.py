"""Reports runs that failed. ``notify=`` sends alerts elsewhere."""

from orchestration import run_failure_alerts, send_alert

run_failures = run_failure_alerts(notify=send_alert)
