"""Lag objectives of the tables: every record is in its table within a number of seconds.

The watchdog reports when an objective is kept or missed.
"""

from assets.pipelines import airlines, airports, clean_flights, planes, weather
from orchestration import lag_objective

keeps_up = [lag_objective(table, within_s=60) for table in (clean_flights, weather)]
reference_keeps_up = [lag_objective(table, within_s=300) for table in (planes, airports, airlines)]
