"""A run of any table that follows a topic.

- ``context``: what a run works with, and what it returns. ``steps``: the steps that runs share.
- ``following``: one range after another. ``archived_ranges``: records that retention removed from
  the log.
"""
