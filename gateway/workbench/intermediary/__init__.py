"""An intermediary between a gateway and its containers: it keeps what passes, or spoils it.

The gateway itself knows nothing of the intermediary, which is a container to the gateway, and the
gateway to the container.
"""
