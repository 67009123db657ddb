"""The protocols of voice clients, one class for each."""
