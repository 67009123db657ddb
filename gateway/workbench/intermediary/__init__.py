"""An intermediary between a gateway and its containers: it keeps what passes, or spoils it.

The gateway itself knows nothing of it: to the gateway it is a container, to the container the
gateway.
"""
