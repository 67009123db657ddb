"""How a runtime listens for HTTP/1.1, which is read in :mod:`partway.protocol.http1`.

============ ================================================================
``server``   all connections, and what each of them asks
``exchange`` one request, and its answer
``chunks``   a body whose chunks are kept apart
============ ================================================================
"""
