"""A model that adds up each instance, on Partway's runtime: the same as its peers serve."""

from __future__ import annotations

import orjson

from partway import Model, Reply, Request


class Sums(Model):
    """``{"instances": [[…], …]}`` in, ``{"predictions": […]}`` out."""

    async def invoke(self, request: Request) -> Reply:
        """Add up on the loop, which a handler of one millisecond may do."""
        instances = await request.instances()
        return Reply(orjson.dumps({"predictions": list(map(sum, instances))}), "application/json")
