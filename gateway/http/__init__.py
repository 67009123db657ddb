"""HTTP for clients: the listener, the HTTP versions, and the dispatch to operations."""
