"""Starts a run of the tables that follow a topic when the topic has new records.

It also reports high watermarks and lag.
"""

from orchestration import topic_sensor

new_records = topic_sensor()
