"""HTTP/1.1 as bytes, for the gateway and for the container's runtime (RFC 9112).

============== ================================================================================
``parser``     bytes → requests: llhttp, and stricter checks of what llhttp accepts
``request``    one request: its head, and the bytes held of its body
``response``   the head of a response
============== ================================================================================

Their connections are in :mod:`partway.protocol.connections`.
"""
