"""partway.gateway.fleet.provisions: what is made, and when."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.endpoint import Attached, Containers, OneContainer, Variant
from partway.gateway.fleet.launchers.attached import AttachLauncher
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.network.dialling import Address
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.fakes import PROGRAM
from tests.gateway.fleet.waiting import soon

pytestmark = pytest.mark.usefixtures("docker_host")


async def test_an_engine_that_was_never_used_is_not_asked(fake, data):
    for each in (Provisions(LoopClock(), data), Provisions(LoopClock())):
        await soon(each.remove_leftovers())
        await each.aclose()
    assert fake.asked == []


async def test_each_kind_of_source_has_one_launcher():
    provisions = Provisions(LoopClock())
    launcher = provisions.means.launcher
    attached = Attached((Address("127.0.0.1", 1),))
    several = Containers((OneContainer(hostname="one", source=PROGRAM),))
    assert isinstance(launcher(Variant(source=attached)), AttachLauncher)
    variants = [Variant(source=each) for each in (attached, PROGRAM, several)]
    made = [launcher(each) for each in variants]
    assert [launcher(each) for each in variants] == made
    assert len(set(made)) == 3
    await provisions.aclose()


async def test_what_a_container_prints_is_kept(data):
    provisions = Provisions(LoopClock(), data)
    output = provisions.means.output("one", "echo")
    output.feed(b"hello")
    output.close()
    await provisions.aclose()
    assert (data.logs / "one.log").read_bytes() == b"hello"
