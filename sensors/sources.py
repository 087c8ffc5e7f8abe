"""Starts the runs of sources: files that are dropped, rows that change."""

from orchestration.sensing import source_sensor

sources = source_sensor()
