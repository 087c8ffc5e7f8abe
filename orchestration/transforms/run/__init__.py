"""A run of any table that follows a topic.

- ``context``: the inputs and the results of a run. ``steps``: the steps that runs share.
- ``following``: a run that reads one range after another. ``archived_ranges``: records that
  retention removed from the log.
"""
