"""Tells how far the groups of other programs are behind."""

from orchestration.sensing import group_sensor

groups = group_sensor()
