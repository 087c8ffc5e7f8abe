"""The log service as the platform sees it.

- ``protocol``: the protocol of blocking calls. ``connection``: that protocol over
  ``log_service.client``.
"""
