"""ACLs and the decisions made from them (KIP-11, KIP-290; resource types as in KIP-1083).

- ``values``: the fields of an ACL, and the numbers of its pattern type and permission type.
- ``hosts``: client addresses as Java writes them, because ACLs name hosts that way.
- ``index``: all ACLs, indexed so that those of one resource are found without a scan.
- ``decision``: the decision that the ACLs of a resource make about one operation.
- ``authorizer``: super users, the index, and a cache of decisions.
- ``filters``: the ACLs that match a filter of DescribeAcls or DeleteAcls.

The semantics are those of Apache Kafka's StandardAuthorizer. Nothing here waits, and nothing here
knows the metadata. ACLs are passed in.
"""
