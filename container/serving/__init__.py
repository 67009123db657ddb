"""HTTP/1.1 server of the runtime; requests are parsed in :mod:`partway.protocol.http1`.

============ ================================================================
``server``   all connections, and their requests
``exchange`` one request, and its answer
``body``     the received bytes of a request's body, for the model
============ ================================================================
"""
