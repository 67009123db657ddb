"""The OpenAPI description of all operations, and its page."""
