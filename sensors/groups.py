"""Reports the lag of other programs' groups."""

from orchestration import group_sensor

groups = group_sensor()
