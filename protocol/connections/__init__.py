"""Connections on asyncio, for gateway and container. Only this part of ``protocol`` uses sockets.

==================== =========================================================================
``websocket``        frames in, frames out, flow control, closing handshake
``http1_connection`` answers requests in order, and ends the connection
``http1_reading``    parses a client's requests in turns, and holds the client back
``http1_server``     all connections of HTTP/1.1, up to the shutdown
``fair_turns``       connections with a backlog take turns
``batched_writes``   one write for all frames of one read
``slow_clients``     clients that send no head, or take none of their response
``prompt_acks``      acknowledgements that no answer carries
``upgrading``        the client's handshake
``peer_watch``       pings, and bytes that a peer does not take
``tcp``              half-closing, keepalive, a peer that has ended
==================== =========================================================================
"""
