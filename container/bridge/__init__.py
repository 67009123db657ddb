"""The bridge: a WebSocket server that knows nothing of the contract, behind section 1.1.

``server`` is the container's side, ``stream`` one stream with its two connections, ``dialling`` the
way to the upstream, ``health`` and ``program`` watch it, and ``settings`` says where it is.
"""
