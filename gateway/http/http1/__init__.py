"""HTTP/1.1 of the gateway: connections, and requests as exchanges."""
