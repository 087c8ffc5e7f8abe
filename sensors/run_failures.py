"""Tells of runs that failed; give it ``notify=`` to send alerts elsewhere."""

from orchestration.sensing import run_failure_alerts

run_failures = run_failure_alerts()
