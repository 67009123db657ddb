"""Connections on asyncio, for gateway and container alike: here alone ``protocol`` touches sockets.

==================== =========================================================================
``websocket``        frames in, frames out, flow control, closing handshake
``http1_connection`` has requests answered in their order, and ends
``http1_reading``    makes requests of what a client sends, in turns, and holds the client back
``http1_server``     all connections of HTTP/1.1, to the shutdown
``fair_turns``       connections with a backlog take turns
``batched_writes``   one write for what one read brings
``slow_clients``     a client whose head does not come, or that takes nothing
``prompt_acks``      acknowledgements that no answer carries
``tcp``              the end of one side, keepalive, a peer that has ended
==================== =========================================================================
"""
