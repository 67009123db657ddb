"""How a runtime listens for HTTP/1.1, which is read in :mod:`partway.protocol.http1`.

============ ================================================================
``server``   all connections, and what each of them asks
``exchange`` one request, and its answer
``body``     what has come of a request's body, for the model
``chunks``   a body whose chunks are kept apart
============ ================================================================
"""
