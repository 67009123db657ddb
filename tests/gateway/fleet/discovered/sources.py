"""A source of instances that says what a test says."""

from __future__ import annotations

from partway.gateway.fleet.discovered.source import FoundInstance, FoundInstances
from partway.gateway.fleet.endpoint import Discovered, Endpoint, Variant
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from tests.gateway.fleet.fakes import turns


def found(number, **keys):
    """An instance with an address and a key of its own."""
    return FoundInstance(
        f"key-{number}", f"pod-{number}", Address(f"10.0.0.{number}", 8080), **keys
    )


def discovered(*services, name="echo", policy=None, **keys):
    """An endpoint with a variant for each service, called as the service is."""
    return Endpoint(
        name,
        policy or StreamPolicy(),
        tuple(
            Variant(source=Discovered(each), name=each, **keys) for each in services or ("chat",)
        ),
    )


class _FakeFollowing:
    def __init__(self, source, on_change):
        self.source = source
        self.on_change = on_change
        self.stopped = False
        self.trouble = ""
        self.unreachable = {}

    def tell_reachable(self, instance, trouble):
        assert not self.stopped
        if trouble:
            self.unreachable[instance.name] = trouble
        else:
            self.unreachable.pop(instance.name, None)

    def stop(self):
        self.stopped = True


class FakeSources:
    """Attributes: ``followed``: what is followed, stopped ones too."""

    def __init__(self):
        self.followed = []

    def follow(self, source, on_change):
        self.followed.append(_FakeFollowing(source, on_change))
        return self.followed[-1]

    def of(self, service="chat"):
        """The one following of a service."""
        (there,) = [
            each for each in self.followed if each.source.service == service and not each.stopped
        ]
        return there

    async def say(self, *instances, service="chat", **keys):
        self.of(service).on_change(FoundInstances(instances, **keys))
        await turns()
