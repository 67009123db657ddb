"""The commands of ``partway-container``, one module each."""
