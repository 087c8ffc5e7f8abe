"""One HTTP/1.1 server (RFC 9112) on trio, for every service of this package.

- ``values``: requests, responses, and the error that ends a request.
"""
