"""Version 1, our own: records as streams, writes with an idempotency key, and queues.

No request depends on an earlier one at the same proxy. The client keeps the position in a stream,
the key of a write and the leases of a queue, so any proxy behind a load balancer can respond.

- ``positions``: offsets by partition, at which a stream begins or continues.
- ``query``: the parameters of a stream. ``lines``: records and the end of a stream as text.
- ``chunks``: lines of the newest records. ``shared_readers``: consumers that read for streams.
- ``reading``: a stream. ``endings``: the reasons for its end. ``decoders``: decodes with schemas.
- ``records``: a record in the body of a request. ``idempotency``: writes a body once.
- ``produce``: writes records, each with a line of the response.
- ``queues``: leases of share groups.
- ``routes``: the table of all routes.
"""
