"""Protocols as pure functions and state machines over bytes, for gateway and container.

Nothing here opens a socket, reads a clock, uses asyncio or logs. The one exception is
:mod:`partway.protocol.connections`, which nothing else here imports.

Clause ids such as ``1.2-3`` refer to ``docs/reference/contract.md``.
"""
