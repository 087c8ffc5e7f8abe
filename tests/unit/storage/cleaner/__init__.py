"""Compaction: its decisions, its passes, its crashes."""
