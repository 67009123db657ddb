"""The description of all operations by OpenAPI, and its page."""
