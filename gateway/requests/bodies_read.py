"""What containers say of bodies of predict that they have read themselves."""

from __future__ import annotations

from typing import Final

from partway.protocol.http1.facts import Fact
from partway.protocol.unread_bodies import instances_found

#: How many instances a container has read, by the head of its answer; 0 where it refuses them, None
#: where it does not say so.
FOUND: Final = Fact(instances_found)
