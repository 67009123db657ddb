"""The commands of ``partway``, one module each."""
