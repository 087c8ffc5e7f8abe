"""Replays of any table that follows a topic.

- ``plan``: the offsets of a request. ``pieces``: a plan cut into pieces. ``steps``: the replay of a
  plan.
- ``lost_records``: records that neither log nor archive holds.
"""
