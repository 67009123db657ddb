"""What the bytes mean: pure functions and state machines over bytes, for gateway and container.

Nothing here opens a socket, reads a clock, touches asyncio or logs, but for one room,
:mod:`partway.protocol.connections`, which nothing else here imports.

Clause ids such as ``1.2-3`` refer to ``docs/reference/contract.md``.
"""
