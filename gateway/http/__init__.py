"""The listener, the HTTP versions behind it, and the way from a request to an operation."""
