"""Reports runs that failed.

Alerts go to the webhook and e-mail addresses of the settings. Pass another function as ``notify=``
to send them elsewhere.
"""

from orchestration import run_failure_alerts, send_alert

run_failures = run_failure_alerts(notify=send_alert)
