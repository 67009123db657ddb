"""How a runtime listens for HTTP/1.1, which is read in :mod:`partway.protocol.http1`.

============ ================================================================
``server``   all connections, and what each of them asks
``exchange`` one request, and its answer
``body``     a request's body, whole or as it comes, with its chunks kept apart
============ ================================================================
"""
