"""gRPC over HTTP/2, as bytes: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.

============================ =====================================================================
``messages``                 a body ↔ messages, each behind its prefix; compressed ones in bounds
``metadata``                 what heads and trailers say: deadlines, statuses
``values``                   ``google.protobuf.Value`` ↔ JSON
``predictions``, ``health``  messages of a service, made at run time of tables
============================ =====================================================================

What is made of protobuf is imported by the first call that needs it.
"""
