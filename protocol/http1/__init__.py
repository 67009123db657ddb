"""HTTP/1.1 as bytes, for the gateway and for the container's runtime alike (RFC 9112).

============== ================================================================================
``parser``     bytes → requests: llhttp's, and which of what it lets pass is refused
``request``    one request: its head, and what has come of its body
``response``   the head of a response
============== ================================================================================

Their connections are in :mod:`partway.protocol.connections`.
"""
