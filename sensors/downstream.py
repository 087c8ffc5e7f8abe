"""What is downstream of a table that changed is computed anew: joined tables, marts, SQL tables."""

from orchestration import automation_sensor

downstream = automation_sensor()
