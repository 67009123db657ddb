"""The model ``text``: a causal language model for streams and invocations."""
