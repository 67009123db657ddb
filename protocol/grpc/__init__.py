"""gRPC over HTTP/2, as bytes: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.

============================ =====================================================================
``messages``                 a body ↔ length-prefixed messages; decompression within bounds
``metadata``                 deadlines and statuses, in heads and trailers
``values``                   ``google.protobuf.Value`` ↔ JSON
``predictions``, ``health``  messages of a service, built at run time from tables
============================ =====================================================================

Modules that need protobuf are imported by the first call that needs them.
"""
