"""RFC 6455: frames and the opening handshake, as bytes."""
