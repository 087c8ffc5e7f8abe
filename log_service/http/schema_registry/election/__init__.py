"""Election of the one instance that writes, as a group of Kafka's classic group protocol.

The group's coordinator watches the members. One of them chooses the leader for all, from what every
member reports about itself. Confluent's registry and Karapace speak the same protocol, so instances
of all three may share a group.

The modules, from the bottom up:

- ``protocol``: the messages between members, their bytes, and the choice of the leader.
- ``elector``: one member of the group. It publishes who leads.

Leadership alone does not protect the topic. The brokers refuse a former leader's batches, as
``log`` says. A registry's user needs READ on the group.
"""
