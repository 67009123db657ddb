"""Small broken containers, each of which breaks one clause.

``base`` and ``base_stream`` are a container that keeps the contract, written on asyncio alone; a
mutant is one method of it, done wrong. ``catalogue`` lists them all.

::

    python -m tests.gateway.workbench.conformance.mutants no-pong serve
"""
