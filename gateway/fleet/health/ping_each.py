"""Pinging all containers of an instance."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.instance_context import Pinger
from partway.gateway.network.dialling import OutOfDescriptors


async def ping_each(
    ping: Pinger, place: Place, seconds: float, but: Collection[str] = ()
) -> Mapping[str, str | None]:
    """Ask each container of an instance, all at once.

    ``seconds`` limit each answer. ``but`` has the host names of containers to leave out.

    Returns:
        For each host name in order, what was wrong; None for an answer with 200. An only container
        has an empty host name.

    Raises:
        OutOfDescriptors: one container could not be asked, so nothing is known of the instance.
    """
    if not place.containers:
        return {"": await ping(place, seconds)}

    not_asked: OutOfDescriptors | None = None

    async def asked(each: Place) -> str | None:
        nonlocal not_asked
        try:
            return await ping(each, seconds)
        except OutOfDescriptors as error:  # the other pings run to their end
            not_asked = error
            return None

    async with asyncio.TaskGroup() as asking:
        answers = {
            each.hostname: asking.create_task(asked(each))
            for each in place.containers
            if each.hostname not in but
        }
    if not_asked is not None:
        raise not_asked
    return {hostname: answer.result() for hostname, answer in answers.items()}
