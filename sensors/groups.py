"""Tells how far the groups of other programs are behind."""

from orchestration import group_sensor

groups = group_sensor()
