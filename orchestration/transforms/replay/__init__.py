"""Replays of any table that follows a topic.

- ``plan``: the offsets of a request. ``pieces``: a plan cut into pieces. ``steps``: replays a plan
  piece by piece.
- ``lost_records``: records that neither log nor archive holds.
"""
