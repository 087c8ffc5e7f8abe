"""Version 1, our own: records as streams.

No request depends on an earlier one at the same proxy. The position in a stream is the client's, so
any proxy behind a load balancer responds.

- ``positions``: offsets by partition, where a stream begins and goes on.
- ``query``: the parameters of a stream. ``lines``: records and the end of a stream as text.
- ``reading``: a stream.
- ``routes``: the table of all routes.
"""
