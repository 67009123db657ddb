"""TLS: the listener's certificate, and the local CA that can make one."""
