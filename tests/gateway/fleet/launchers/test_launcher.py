"""partway.gateway.fleet.launchers.launcher: an order can be sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Image,
    InstanceTimes,
    OneContainer,
    Program,
    Variant,
)
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.platform_interface import VertexContainer
from partway.gateway.network.dialling import Address
from partway.gateway.storage.places.pinned_path import PinnedPath
from partway.gateway.tls.trust import Trust
from tests.gateway.fleet.launchers.order_bytes import decoded, encoded

ATTACHED = Attached((Address("far", 8080),), Trust(Path("/roots.pem")))
PROGRAM = Program(("serve", "--port", "{port}"), Path("/srv"))
SEVERAL = Containers(
    (
        OneContainer(hostname="pre", source=PROGRAM, model_data="s3://models/a.tar.gz"),
        OneContainer(hostname="model", source=ATTACHED),
    ),
    "direct",
)


@pytest.mark.parametrize("source", [ATTACHED, PROGRAM, Image("echo:1", "never"), SEVERAL])
def test_an_order_is_a_value_that_can_be_sent(source):
    variant = Variant(
        source=source,
        model_data="/models/a",
        model_maker="alice",
        pinned=PinnedPath(Path("/models/a"), (1, 2)),
        environment=(("A", "é\n"), ("B", "")),
        gpus=1,
        cpus=0.5,
        memory=1 << 40,
        times=InstanceTimes(download_timeout=5.0),
        vertex=VertexContainer("/health"),
    )
    each = tuple(
        Order(f"i_{one.hostname}", "echo", variant.of(one), 0, "v") for one in variant.containers
    )
    order = Order("i", "echo", variant, 3, "v", each)
    assert decoded(encoded(order)) == order
