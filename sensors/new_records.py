"""New records in any topic start a run of the tables that follow it; high watermarks and lag are told on the way."""

from orchestration import topic_sensor

new_records = topic_sensor()
