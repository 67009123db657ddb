"""Connections on asyncio, for gateway and container alike: here alone ``protocol`` touches sockets.

==================== =========================================================================
``websocket``        frames in, frames out, flow control, closing handshake
``http1_connection`` reads requests in turns, has them answered in order, and ends
``http1_server``     all connections of HTTP/1.1, to the shutdown
``fair_turns``       connections with a backlog take turns
``batched_writes``   one write for what one read brings
``stalled_writes``   a client that takes nothing of what it is sent
``prompt_acks``      acknowledgements that no answer carries
``tcp``              the end of one side, keepalive, a peer that has ended
==================== =========================================================================
"""
