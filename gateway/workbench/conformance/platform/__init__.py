"""The checks turned around: whether a platform keeps its side of the contract.

An instrumented container writes down every byte that a gateway sends it, while a client drives
that gateway over its public surface.
"""
