"""Asking an instance for ``/ping``, which may have several containers: it is as its worst one."""

from __future__ import annotations

import asyncio

from partway.gateway.fleet.endpoints import Place
from partway.gateway.fleet.making import Pinger


async def ping_each(ping: Pinger, place: Place, seconds: float) -> str | None:
    """Ask each container of an instance, all at once.

    Args:
        ping: asks one.
        place: where the instance is.
        seconds: for each answer.

    Returns:
        None if all have answered with 200; else what was wrong with the first that has not, behind
        its host name where there are several.
    """
    if not place.containers:
        return await ping(place, seconds)

    async def asked(each: Place) -> str | None:
        return await ping(each, seconds)

    async with asyncio.TaskGroup() as asking:
        answers = [asking.create_task(asked(each)) for each in place.containers]
    for each, answer in zip(place.containers, answers, strict=True):
        if (trouble := answer.result()) is not None:
            return f"{each.hostname}: {trouble}"
    return None
