"""Probes of a container, as its spec describes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp

#: Runs a command in the container; gives its exit status.
Execute = Callable[..., Awaitable[int]]


class ProbeError(Exception):
    """The spec of a probe or of a hook is wrong."""


#: There was no answer, or a late one, or nothing could be asked.
FAILURES = (OSError, TimeoutError, aiohttp.ClientError, ProbeError)


def port_of(container: dict[str, Any], port: int | str) -> int:
    """A port's number; a name is one of the container's ports."""
    if isinstance(port, int):
        return port
    for each in container.get("ports", ()):
        if each.get("name") == port:
            return int(each["containerPort"])
    raise ProbeError(f"port: {port!r} is none of the ports of container {container['name']}")


async def succeeds(
    action: dict[str, Any], container: dict[str, Any], address: str, execute: Execute
) -> bool:
    """Whether an action succeeds: of a probe, or of a hook.

    Args:
        action: has ``httpGet``, ``tcpSocket`` or ``exec``.
        address: the pod's.
    """
    match action:
        case {"exec": {"command": words}}:
            return await execute(*words) == 0
        case {"tcpSocket": {"port": port}}:
            _, writer = await asyncio.open_connection(address, port_of(container, port))
            writer.close()
            return True
        case {"httpGet": asked}:
            scheme = asked.get("scheme", "HTTP").lower()
            host = asked.get("host", address)
            headers = {each["name"]: each["value"] for each in asked.get("httpHeaders", ())}
            async with aiohttp.request(
                "GET",
                f"{scheme}://{host}:{port_of(container, asked['port'])}{asked.get('path', '/')}",
                headers={"User-Agent": "kube-probe/1.20", **headers},
                allow_redirects=False,
                connector=aiohttp.TCPConnector(ssl=False, force_close=True),
            ) as response:
                return 200 <= response.status < 400
    raise ProbeError(f"an action must be httpGet, tcpSocket or exec; it is {sorted(action)}")


async def outcomes(
    probe: dict[str, Any], container: dict[str, Any], address: str, execute: Execute
) -> AsyncIterator[bool]:
    """The probe's state each time that enough results in a row say so."""
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    needed = {True: probe.get("successThreshold", 1), False: probe.get("failureThreshold", 3)}
    last, row = None, 0
    while True:
        try:
            async with asyncio.timeout(probe.get("timeoutSeconds", 1)):
                result = await succeeds(probe, container, address, execute)
        except FAILURES:
            result = False
        row = row + 1 if result is last else 1
        last = result
        if row >= needed[result]:
            yield result
        await asyncio.sleep(probe.get("periodSeconds", 10))
