"""Operations on a running cluster, over an admin client. They look at its state, carry out a plan,
and take one back.

- ``reading``: the cluster as ``log_service.cluster_plans`` wants to see it.
- ``findings``: what is wrong with it.
- ``moving``: a plan carried out in steps, with its throttles; moves that are watched and taken
  back.
- ``waiting``: until a broker serves, and until all is in sync.
- ``rolling``: through a rolling restart, and what one leaves that ends early.
- ``cordoning``: no new partitions on a broker while it is emptied.
- ``removal``: a broker emptied, stopped and forgotten.
- ``group_offsets``: where a reset moves the offsets of a group.
- ``membership``: what has to hold before a broker leaves, and how voters come and go.

Everything here asks the cluster through ``log_service.client`` and works on tidelog and Apache
Kafka alike. Functions that ask are async and take the trio ``Admin`` first. Programs with threads
call them through ``BlockingAdmin.run``.
"""
