"""TLS: the certificate that the listener shows, and the local CA that can make one."""
