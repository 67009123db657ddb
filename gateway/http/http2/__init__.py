"""HTTP/2 for the gateway's clients, on h2 (RFC 9113).

============== ================================================================================
``server``     all connections, to the shutdown
``connection`` one connection: reads frames, in turns with other connections
``streams``    its streams: each request becomes an Exchange
``stream``     one stream: the bodies of both directions, with their flow control
``exchange``   the request on a stream, and the way to answer it
``sending``    decides when bytes leave: turns of streams, windows, the transport
``lifetime``   how many streams may be open, and when a connection closes
``late_input`` input that arrives after a response has ended
``library``    h2, with a shorter way for plain DATA
============== ================================================================================
"""
