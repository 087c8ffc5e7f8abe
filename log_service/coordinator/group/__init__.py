"""The group coordinator's decisions: classic, consumer, share and streams groups, and the offsets that groups commit. No input or output.

- ``group_coordinator``: one shard, with all its groups. ``records``: what the log holds of offsets and classic groups.
- ``listing``: how groups are shown. ``group_settings``: the settings of one group, within the broker's bounds.
- ``offsets``: committed offsets; ``pending_offsets``: those of open transactions; ``offset_removals``: those that go.

Classic groups: ``classic_group`` is one group with the table of its states; ``joining`` and ``membership`` decide on its members.

Consumer groups (KIP-848):

- ``consumer_group``: one group as the log holds it; ``consumer_member``: one member; ``consumer_records``: what the log holds of both.
- ``consumer_heartbeats``: what a heartbeat brings about; ``consumer_requests`` checks it first. ``consumer_steps``: the steps that follow
  when a member speaks; ``reconciliation``: one member's next step towards its target.
- ``consumer_sessions``: how long members may take; ``consumer_removals``: members that go.
- ``assignors``: the targets of all members. ``regex_refresher``: which topics regular expressions match.
- ``consumer_listing``: how these groups are shown.
- ``classic_members``: members of the classic protocol in such a group; ``consumer_metadata``: the bytes that they exchange.
- ``group_migration``: a classic group becomes a consumer group, and the way back.

Share groups (KIP-932):

- ``share_group``: one group as the log holds it; ``share_records``: what the log holds of it. ``share_groups``: those of a shard.
- ``share_heartbeats``: what a heartbeat brings about; ``share_assignor``: the targets of all members.
- ``share_states``: which partitions have a share state.

Streams groups (KIP-1071):

- ``streams_group``: one group as the log holds it; ``streams_tasks``: its members and their tasks; ``streams_records``: what the log holds.
- ``streams_topology``: what the application processes; ``streams_configuration``: partition counts, tasks and missing topics.
- ``streams_heartbeats``: what a heartbeat brings about; ``streams_requests`` checks it first. ``streams_reconciliation``: one member's next
  step towards its target; ``streams_assignor``: the targets of all members. ``streams_listing``: how these groups are shown.

What the last three have in common: ``partitions``, sets of partitions by topic id; ``topic_hash``, which tells that topics have changed;
``epochs``, of groups, targets and members; ``member_sessions``: how long members may be silent.
"""
