"""The path of a request: find its quota, decode, authorize, handle, respond.

- ``pipeline``: the path itself. ``call``: one request, and the results of its handler.
- ``large``, ``pieces``: requests of many elements, cut into pieces.
- ``step_scheduler``: large responses, made and encoded step by step.
- ``produce_queues``: produce requests that take longer than a turn of the event loop.
- ``echo``: the error response to a request that failed as a whole.
"""
