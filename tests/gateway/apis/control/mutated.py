"""Whether a gateway answers whatever it is asked, and with no fault of its own."""

from __future__ import annotations

import json
from collections import Counter

from tests.gateway.apis.control.mutations import Mutated, mutations
from tests.wire.peers import RunningGateway


async def answers_to(gateway: RunningGateway, count: int, seed: int) -> Counter[str]:
    """Ask so many requests, and return how often each error came; ``""`` for none."""
    seen: Counter[str] = Counter()
    for number, mutated in enumerate(mutations(count, seed)):
        response = await gateway.request(_bytes(mutated))
        said = f"request {number} of seed {seed}: {mutated!r:.2000}: {response!r:.500}"
        assert response.status < 500, said
        name = ""
        if response.status != 200:
            name = response.headers.get("x-amzn-errortype") or json.loads(response.body)["__type"]
            assert name, said
        seen[name] += 1
    return seen


def _bytes(mutated: Mutated) -> bytes:
    lines = [f"{mutated.method} / HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"Content-Length: {len(mutated.body)}"]
    lines += [f"X-Amz-Target: {mutated.target}"] if mutated.target else []
    lines += [f"Content-Type: {mutated.content_type}"] if mutated.content_type else []
    return "\r\n".join([*lines, "", ""]).encode() + mutated.body
