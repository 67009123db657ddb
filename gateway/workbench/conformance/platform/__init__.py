"""The platform's checks: whether a gateway keeps its side of the contract.

A client drives the gateway over its public surface, and an instrumented container records every
byte that the gateway sends.
"""
