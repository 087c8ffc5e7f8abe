"""The classic and the consumer protocol in one group (KIP-848).

- ``classic_members``: members of the classic protocol in a consumer group.
- ``group_migration``: converts a classic group to a consumer group, and back.
"""
