"""Recomputes joined tables, marts and SQL tables downstream of a table that changed."""

from orchestration import automation_sensor

downstream = automation_sensor()
