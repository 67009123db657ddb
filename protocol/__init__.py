"""What the bytes mean: pure functions and state machines over bytes, for gateway and container.

Nothing in this package opens a socket, reads a clock or logs; :mod:`partway.protocol.connection`
alone touches asyncio. Clause ids such as ``1.2-3`` refer to ``docs/reference/contract.md``.
"""
