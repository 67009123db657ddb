"""The model ``voice``: speech in, speech out, by the protocols of voice clients."""
