"""text: a causal language model behind streams and invocations."""
