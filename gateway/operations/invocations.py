"""What operations on a container's ``/invocations`` share: they have an instance asked."""

from __future__ import annotations

from collections.abc import Mapping

from partway.gateway.access.authentication import Identity
from partway.gateway.arns import Arns
from partway.gateway.containers.connections import ContainerConnections
from partway.gateway.containers.metrics import RequestMetrics
from partway.gateway.containers.under_way import RequestsUnderWay
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.routing.sticky_sessions import NO_SESSION, StickySession
from partway.gateway.operations.asking import AdmittedAlready, Asking
from partway.gateway.operations.invocation import Invocation, MeansOfAsking


class Invocations:
    """Asks instances.

    Args:
        router: chooses the instance.
        connections: by which instances are asked.
        under_way: where a request is admitted.
        metrics: where a request is counted.
        arns: makes the names of logs; its account is in AWS's words.
        most_bytes: of a request's body.
    """

    def __init__(
        self,
        router: Router,
        connections: ContainerConnections,
        under_way: RequestsUnderWay,
        metrics: RequestMetrics,
        arns: Arns,
        most_bytes: int,
    ) -> None:
        self.most_bytes = most_bytes
        self._router = router
        # Slots are found in a fraction of the time that a tuple's members take.
        self._means = MeansOfAsking(router, connections, under_way, metrics, arns)

    def answered(
        self,
        exchange: Asking,
        identity: Identity,
        endpoint: str,
        headers: Mapping[str, str],
        *,
        variant: str = "",
        session: str = "",
        as_stream: bool = False,
        admitted: AdmittedAlready | None = None,
        target: str | None = None,
        most_bytes: int | None = None,
    ) -> Invocation:
        """Ask an instance, and have its answer for as long as the block lasts.

        Args:
            exchange: whose body is asked with.
            identity: who sends it.
            endpoint: the endpoint's name.
            headers: those that go along, checked.
            variant: the only one that will do; empty for any.
            session: the id of the session that it belongs to; empty for none.
            as_stream: whether the caller keeps it as a stream, and has admitted it as one: how it
                ends is the caller's, and a chunk of the answer is one piece, up to MAX_PART_BYTES.
                The caller says so by :meth:`.Invoked.kept_as_stream`; until then the request's time
                runs, and its body is held.
            admitted: given by a caller that has requests of its own under way, with bounds of their
                own.
            target: the path at which its containers are asked; None for where each takes requests.
            most_bytes: of the request's body; None for those of all requests.

        Returns:
            The block, which raises what has gone wrong as clients know it:

            - ContainerError: an instance did not answer 2xx, or not in time, or not whole.
            - ServiceUnavailable: no instance takes any now, or the gateway is full or draining.
            - InputValidationError: no endpoint or variant has the name.
        """
        if most_bytes is None:
            most_bytes = self.most_bytes if admitted is None else admitted.most_bytes
        return Invocation(
            self._means,
            exchange,
            identity,
            endpoint,
            headers,
            variant,
            session_key(identity, session) if session else NO_SESSION,
            admitted,
            target,
            most_bytes,
            as_stream=as_stream,
        )

    def forget_session(self, identity: Identity, endpoint: str, session: str) -> None:
        """Let a session of a sender's that is over go to any instance."""
        self._router.forget_session(endpoint, session_key(identity, session))


def session_key(identity: Identity, session: str) -> StickySession:
    """The name by which a session of a sender's is known here; without an id it is no session."""
    return StickySession(identity.principal or "", session) if session else NO_SESSION
