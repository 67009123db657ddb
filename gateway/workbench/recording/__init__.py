"""What passed on a stream, kept in a file: to look at, to say again, to check with."""
