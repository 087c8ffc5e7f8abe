"""Who may do what: ACLs, and the decisions that they make (KIP-11, KIP-290, KIP-1083 for the kinds of resources).

- ``values``: what an ACL is, and the numbers of its pattern and permission.
- ``hosts``: client addresses as Java writes them, which is how ACLs name hosts.
- ``index``: all ACLs, so that those of one resource are found without looking at the others.
- ``decision``: what the ACLs of a resource say about one operation.
- ``authorizer``: super users, the index, and the decisions that were made since it last changed.
- ``filters``: which ACLs a filter of DescribeAcls and DeleteAcls means.

The semantics are those of Apache Kafka's StandardAuthorizer. Nothing here waits, and nothing here knows the metadata: ACLs are handed in.
"""
