"""Archives of strangers, read within bounds: what gzip has packed, and the heads of a tar file."""
