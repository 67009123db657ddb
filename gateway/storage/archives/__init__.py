"""Untrusted archives, read within bounds: gzip decompression and the headers of a tar file."""
