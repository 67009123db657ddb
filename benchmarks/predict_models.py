"""A model that adds up each instance, on Partway's runtime: the same as its peers serve."""

from __future__ import annotations

import orjson

from partway import Model, Reply, Request


class Sums(Model):
    """``{"instances": [[…], …]}`` there, ``{"predictions": […]}`` back."""

    async def invoke(self, request: Request) -> Reply:
        """Add up, as a handler on the loop may that takes a millisecond."""
        instances = await request.instances()
        return Reply(orjson.dumps({"predictions": list(map(sum, instances))}), "application/json")
