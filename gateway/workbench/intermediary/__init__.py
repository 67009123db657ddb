"""An intermediary between a gateway and its containers, which records or spoils streams.

The gateway takes the intermediary for a container, and the container takes it for the gateway.
"""
