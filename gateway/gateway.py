"""The gateway: what it listens on, what it answers, and the way down."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from partway.gateway.access.authentication import (
    Authenticator,
    NoAuthentication,
    SigV4Authentication,
)
from partway.gateway.access.principals import Principals
from partway.gateway.arns import Arns
from partway.gateway.asynchronous.service import AsyncService
from partway.gateway.clock import LoopClock
from partway.gateway.control.async_rules import AsyncRules
from partway.gateway.control.catalogue import Catalogue
from partway.gateway.control.deployments import Deployments
from partway.gateway.control.endpoint_keeper import EndpointKeeper
from partway.gateway.control.endpoints import EndpointOperations
from partway.gateway.control.known_endpoints import KnownEndpoints
from partway.gateway.control.local_paths import LocalRoots
from partway.gateway.control.logs import LogOperations
from partway.gateway.control.model_data_leave import ModelDataLeave
from partway.gateway.control.plane import ControlPlane
from partway.gateway.control.resources import Resources
from partway.gateway.control.transform_jobs import TransformOperations
from partway.gateway.control.transform_keeper import TransformKeeper
from partway.gateway.disk_recovery import (
    ASYNCHRONOUS,
    CHANGES,
    CREATED,
    NEEDS_DISK,
    DiskRecovery,
    DiskStep,
)
from partway.gateway.fleet.data_directory import DataDirectory
from partway.gateway.fleet.dialler import Dialler, dial_container
from partway.gateway.fleet.file_work import on_thread
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.limits import LEFTOVERS_TIMEOUT
from partway.gateway.fleet.metrics import FleetMetrics
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.routing import Router
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.kubernetes.controller import EndpointController
from partway.gateway.kubernetes.leave import ObjectLeave
from partway.gateway.kubernetes.objects import CustomObjects
from partway.gateway.kubernetes.operations import ObjectOperations
from partway.gateway.kubernetes.rules import ObjectRules
from partway.gateway.kubernetes.service import KubernetesService
from partway.gateway.limits import SETTLING_TIMEOUT
from partway.gateway.operations.bidirectional import BidirectionalStream
from partway.gateway.operations.grpc.inference import InferenceService
from partway.gateway.operations.grpc.predictions import PredictionService
from partway.gateway.operations.grpc.services import grpc_routes
from partway.gateway.operations.invocations import Invocations
from partway.gateway.operations.invoke import InvokeEndpoint
from partway.gateway.operations.invoke_async import InvokeEndpointAsync, taken_away
from partway.gateway.operations.open_inference import OpenInference
from partway.gateway.operations.open_inference_resources import OpenInferenceResources
from partway.gateway.operations.openapi.operations import OpenApi
from partway.gateway.operations.predict import Predict
from partway.gateway.operations.prediction_resources import PredictionResources
from partway.gateway.operations.prediction_workers import PredictionWorkers
from partway.gateway.operations.raw_predict import RawPredict
from partway.gateway.operations.response_stream import ResponseStream
from partway.gateway.operations.status import Status
from partway.gateway.operations.unknown_predictions import unknown_prediction_routes
from partway.gateway.process_metrics import ProcessMetrics
from partway.gateway.requests.connections import ContainerConnections
from partway.gateway.requests.metrics import RequestMetrics
from partway.gateway.requests.under_way import RequestsUnderWay
from partway.gateway.serving.crowd import Crowd
from partway.gateway.serving.dispatcher import Dispatcher
from partway.gateway.serving.gathered_bytes import GatheredBytes
from partway.gateway.serving.http1 import Http1Server
from partway.gateway.serving.http2 import Http2Server
from partway.gateway.serving.listener import Listener
from partway.gateway.serving.peers import TrustedProxies
from partway.gateway.serving.repeated_lines import RepeatedLines
from partway.gateway.serving.routes import Route
from partway.gateway.serving.strangers import Strangers
from partway.gateway.settings import Settings
from partway.gateway.store.memory import MemoryStore
from partway.gateway.store.store import Store, StoreError
from partway.gateway.streams.registry import Streams
from partway.gateway.transform.callers_places import CallersPlaces
from partway.gateway.transform.gathering import GatheringRoom

log = logging.getLogger("partway.gateway")


class Listening(NamedTuple):
    """Where a gateway listens: real ports, where 0 was asked for."""

    host: str
    port: int
    tls_port: int | None


class Gateway:
    """One gateway process.

    Owns the listener and the fleet from :meth:`start` to the end of :meth:`drain`, and every stream
    in between.

    Attributes:
        settings: all settings of the gateway.
        streams: that are open.
        fleet: what runs.
        endpoint_keeper: has it run the endpoints that the API has made.
        endpoints: all that there are, for the gateway's user.
        process_metrics: of the process, the version, the limits and the certificate.
        disk_recovery: repeats what the disk has refused at the start.
        deployments: what the gateway's operator has made, all at once.
        custom_resources: endpoints as kubectl asks for them.
        prediction_workers: read and write the bodies of predictions.
        routes: what is answered; the first that fits a request answers it.

    Args:
        settings: all settings of the gateway.
        tls: the TLS context of the TLS port; None without such a port, or where
            :meth:`listen_with_tls` opens it later.
        wall_clock: returns epoch seconds, for signatures.
        further_routes: routes besides the gateway's own, which go first.
        dialler: opens every stream's connection with its container.
        data: where logs of instances and model data are kept; None to keep none.
        store: where what is made while the gateway runs is written down; the caller closes it after
            :meth:`drain`. None to keep it in memory alone.
        kept_out: what no caller may name of this machine, beside what the settings name and
            ``data``.

    Raises:
        PrincipalsError: the file of principals cannot be read, or is malformed.
    """

    def __init__(
        self,
        settings: Settings,
        tls: ssl.SSLContext | None = None,
        wall_clock: Callable[[], float] = time.time,
        further_routes: tuple[Route, ...] = (),
        dialler: Dialler = dial_container,
        data: DataDirectory | None = None,
        store: Store | None = None,
        kept_out: Iterable[Path] = (),
    ) -> None:
        self.settings = settings
        self.store = MemoryStore() if store is None else store
        self.streams = Streams(settings.max_streams, per_principal=settings.streams_per_principal)
        self._tls = tls
        arns = Arns(settings.region, settings.account)
        authenticator = _authenticator(settings, arns, wall_clock)
        model_data_leave = ModelDataLeave(authenticator.may, arns)
        self._provisions = Provisions(
            LoopClock(),
            data,
            settings.model_data_quota,
            lambda *launched: fleet_metrics.launched(*launched),
            model_data_leave.refusal,
        )
        self.requests = RequestsUnderWay(settings.max_requests, settings.requests_per_principal)
        self._connections = ContainerConnections()
        router = Router(wall_clock=wall_clock)
        self.fleet = Fleet(router, self._provisions.means)
        fleet_metrics = FleetMetrics(self.fleet.describe, self.streams.metrics.registry)
        request_metrics = RequestMetrics(self.streams.metrics.registry)

        def forget_others(endpoints: Collection[str]) -> None:
            for each in (self.streams.metrics, request_metrics, fleet_metrics):
                each.keep_only(endpoints)
            if self._asynchronous is not None:
                self._asynchronous.keep_only(endpoints)

        self.fleet.on_end = forget_others
        self.process_metrics = ProcessMetrics(self.streams.metrics.registry, settings.limits)
        invocations = Invocations(
            router,
            self._connections,
            self.requests,
            request_metrics,
            arns,
            settings.max_invocation_body,
        )
        self._resources = Resources(self.store, LoopClock())
        folder = None if data is None else data.logs
        logs = LogOperations(folder, self._described, arns, LoopClock())
        kept_out = (*kept_out, *_own_files(settings, data))
        self.endpoint_keeper = EndpointKeeper(
            *(self._resources, self.fleet, settings, LoopClock(), wall_clock), kept_out=kept_out
        )
        catalogue = Catalogue(self._resources, arns, wall_clock)
        operations = EndpointOperations(
            *(self._resources, catalogue, self.endpoint_keeper),
            *(model_data_leave, wall_clock),
        )
        results = LocalRoots(settings.local_results, kept_out, "local_results")
        planning = self.endpoint_keeper.planning
        rules = AsyncRules(results, settings.topics)
        self._transforms = TransformKeeper(
            self._resources,
            planning,
            self._provisions.means,
            CallersPlaces(
                LoopClock(),
                lambda: planning.local_roots,
                results,
                GatheringRoom(settings.transform_quota),
                None if data is None else data.transforms,
            ),
            authenticator.may,
            None if data is None else data.transforms,
            settings.max_transform_jobs,
            settings.inclusive_slices,
            LoopClock(),
            wall_clock,
        )
        transforms = TransformOperations(
            *(self._resources, catalogue, self._transforms, planning, self.endpoint_keeper.room),
            *(rules, model_data_leave, wall_clock),
        )
        self._control = ControlPlane(
            *(self._resources, arns, wall_clock, LoopClock()),
            further={**operations.operations, **transforms.operations},
            further_of_operator=operations.operations_of_operator,
            is_local=planning.allows_path,
            beside=logs.routes,
            async_rules=rules,
        )
        config_of = self.endpoint_keeper.async_config_of
        self._asynchronous = None
        if data is not None:
            self._asynchronous = AsyncService(
                settings,
                data.requests,
                self.store,
                invocations,
                config_of,
                router.instances_of,
                lambda: planning.local_roots,
                results,
                partial(taken_away, authenticator, arns),
                self.streams.metrics.registry,
                LoopClock(),
                wall_clock,
            )
        invoke_async = InvokeEndpointAsync(
            None if self._asynchronous is None else self._asynchronous.worker,
            config_of,
            lambda name: name in router.table,
            planning.allows_path,
            arns,
            wall_clock,
        )
        most_bytes = settings.max_prediction_body
        workers = self.prediction_workers = PredictionWorkers(
            settings.max_requests, settings.requests_per_principal
        )
        predict = Predict(
            invocations, lambda: router.table, self.fleet.prediction, arns, workers, most_bytes
        )
        raw_predict = RawPredict(
            invocations, self.streams, self.fleet.prediction, workers, most_bytes
        )
        resources = PredictionResources(router, wall_clock(), self.fleet.prediction)
        status = Status(self.streams, lambda: self.fleet.is_ready)
        infer = OpenInference(invocations, self.fleet.prediction, workers, most_bytes)
        models = OpenInferenceResources(router, lambda: status.is_ready, self.fleet.prediction)
        calls = grpc_routes(
            PredictionService(predict, raw_predict, resources, arns, workers, most_bytes),
            InferenceService(invocations, self.fleet.prediction, models, arns, workers, most_bytes),
            lambda: status.is_ready,
        )
        self.endpoints = KnownEndpoints(self.fleet, self.endpoint_keeper)
        self.deployments = Deployments(self._control, self._resources, self.endpoint_keeper)
        self.custom_resources = self._custom_resources(arns, router, wall_clock)
        openapi = OpenApi(lambda: self.routes, asks=authenticator.asks)
        predictions = (
            *predict.routes,
            *raw_predict.routes,
            *resources.routes,
            *infer.routes,
            *models.routes,
        )
        self.routes = (
            *status.routes,
            *BidirectionalStream(router, self.streams, wall_clock, dialler, arns).routes,
            *InvokeEndpoint(invocations).routes,
            *ResponseStream(invocations, self.streams).routes,
            *invoke_async.routes,
            *further_routes,
            *self._control.routes,
            *predictions,
            *unknown_prediction_routes(predictions),
            *openapi.routes,
            *self.custom_resources.routes,
            *calls,
        )
        trusted = TrustedProxies(settings.trusted_proxies)
        dispatcher = Dispatcher(
            self.routes,
            authenticator,
            arns,
            settings.allow_origins,
            self.streams.metrics.refused,
            trusted,
            GatheredBytes(settings.max_gathered_bytes, settings.gathered_bytes_of_one),
        )
        self._http1 = Http1Server(dispatcher)
        self._http2 = Http2Server(
            dispatcher,
            self.streams.metrics.closed_to_new,
            settings.max_streams_per_connection,
            dispatcher.in_reserve,
        )
        self.streams.metrics.connections |= {
            "1.1": lambda: self._http1.open_connections,
            "2": lambda: self._http2.open_connections,
        }
        self._leftovers: asyncio.Task[None] | None = None
        self._data = data
        self._has_read = self._is_up = False
        self.disk_recovery = DiskRecovery(Path() if data is None else data.path, LoopClock())
        self._repeated = RepeatedLines(LoopClock())
        crowd = Crowd(
            settings.max_connections,
            settings.connections_per_address,
            trusted,
            time.monotonic,
            self.streams.metrics.dropped,
            Strangers(LoopClock(), trusted.__contains__).account,
        )
        self._listener = Listener(self._http1, self._http2, crowd)

    def _custom_resources(
        self, arns: Arns, router: Router, wall_clock: Callable[[], float]
    ) -> KubernetesService:
        clock, keeper = LoopClock(), self.endpoint_keeper
        objects = CustomObjects(self.store, clock, wall_clock)
        controller = EndpointController(
            *(objects, self._control, self._resources, keeper, router, clock, wall_clock),
            self.settings.endpoint_domain,
        )
        rules = ObjectRules(objects, self._control, self._resources, keeper, controller)
        leave = ObjectLeave(arns, lambda name: keeper.find(name) is not None)
        operations = ObjectOperations(objects, rules, leave, wall_clock, self._control.whole)
        return KubernetesService(
            objects, operations, controller, leave, self._control.check_read, clock, wall_clock
        )

    async def start(self) -> Listening:
        """Listen on the addresses of the settings, and begin to launch what the endpoints need.

        Containers that somebody else runs are in service from here on, what is launched when it
        answers its pings.

        Raises:
            OSError: an address cannot be listened on; the error's ``filename`` is host and port.
            StoreError: what was written down cannot be read.
            DataDirectoryError: another gateway has taken the data directory.
        """
        for step in self._disk_steps():
            await self.disk_recovery.attempt(step)
        endpoints = self.settings.endpoints
        self.fleet.start(each for each in endpoints if each.is_attached)
        await self.fleet.settled(SETTLING_TIMEOUT)
        # The others begin once it is sure that we listen; whoever asks until then hears no.
        if self._has_read:
            await self.endpoint_keeper.start()
        attached_only = all(each.is_attached for each in endpoints)
        self.fleet.is_ready = attached_only and not self.endpoint_keeper.found
        try:
            if self._asynchronous is not None:
                await self.disk_recovery.attempt(DiskStep(ASYNCHRONOUS, self._start_asynchronous))
            listening = await self._listen()
        except (OSError, StoreError):
            if self._asynchronous is not None:
                await self._asynchronous.drain(0)
            await self._stop_fleet()
            raise
        self._repeated.open()
        self.fleet.start(each for each in endpoints if not each.is_attached)
        self._is_up = True
        if self._has_read:
            self._run_what_was_read()
        return listening

    def _disk_steps(self) -> Iterable[DiskStep]:
        """The first steps of the start; the disk may refuse each of them."""
        if self._data is not None:
            yield DiskStep(NEEDS_DISK, self._complete_data)
        yield DiskStep(CHANGES, self.store.open_for_writing)
        yield DiskStep(CREATED, self._read_store)

    async def _complete_data(self) -> None:
        assert self._data is not None, "else there is no such step"
        data = self._data
        if data.refusal is not None:
            await on_thread(LoopClock(), lambda _: data.complete())

    async def _read_store(self) -> None:
        await self._resources.load()
        await self.custom_resources.load()
        self._has_read = True
        if self._is_up:  # the disk has refused it at the start
            await self.endpoint_keeper.start()
            self._run_what_was_read()

    async def _start_asynchronous(self) -> None:
        assert self._asynchronous is not None, "else there is no such step"
        self._resources.check_read()  # a request whose endpoint is not known yet would end in vain
        await self._asynchronous.start()

    def _run_what_was_read(self) -> None:
        self.endpoint_keeper.run_found()
        self.custom_resources.start()
        self._transforms.start()
        self._leftovers = asyncio.create_task(
            self._see_to_leftovers(), name="removal of leftover containers"
        )

    async def _see_to_leftovers(self) -> None:
        """Let endpoints take over what a gateway that was killed has left; remove the rest.

        Those count too that are still sought, as on a file system that is slow to answer.
        """
        sought = self.endpoint_keeper.sought
        wanted = {(each.name, one.name) for each in self.fleet.describe() for one in each.variants}
        await self._provisions.remove_leftovers(
            lambda endpoint, variant: endpoint in sought or (endpoint, variant) in wanted
        )
        await self.endpoint_keeper.has_found(LEFTOVERS_TIMEOUT)
        await self.fleet.has_settled(LEFTOVERS_TIMEOUT)
        await self._provisions.remove_leftovers()

    async def _listen(self) -> Listening:
        settings = self.settings
        host, port = await self._listener.start(settings.host, settings.port)
        tls_port = None
        if self._tls is not None and settings.tls_port is not None:
            try:
                tls_port = await self.listen_with_tls(self._tls)
            except OSError:
                self._listener.stop()
                raise
        return Listening(host, port, tls_port)

    async def listen_with_tls(self, context: ssl.SSLContext) -> int:
        """Listen on the TLS port of the settings, and return its number.

        Raises:
            OSError: as :meth:`start`.
        """
        assert self.settings.tls_port is not None, "the settings have one"
        _, port = await self._listener.start(self.settings.host, self.settings.tls_port, context)
        return port

    # --- The way down ----------------------------------------------------------------------------

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self.streams.hasten()
        self.requests.hasten()
        if self._asynchronous is not None:
            self._asynchronous.hasten()
        self._transforms.hasten()
        self.fleet.hasten()

    async def drain(self) -> None:
        """Stop: not ready, nothing new, what is open finishes or is ended, then all is closed.

        Until then connections are still accepted, so that who asks is told 503 and goes elsewhere;
        HTTP/2 connections are told GOAWAY at once. Streams and requests have ``shutdown_grace``
        seconds to end by themselves; then requests are broken off, and streams are ended over
        ``shutdown_spread``. All this takes no longer than these two and ``shutdown_hard`` together.
        Then every instance that was launched is stopped, within its ``stop_timeout``.
        """
        try:
            await self._drain()
        finally:
            self._repeated.close()
        log.info("drained")

    async def _drain(self) -> None:
        settings = self.settings
        self.fleet.take_no_changes()
        self._transforms.take_no_jobs()
        await self.disk_recovery.aclose()
        await self.custom_resources.aclose()
        self._http2.announce_end()
        async with asyncio.TaskGroup() as draining:
            draining.create_task(
                self.streams.drain(settings.shutdown_grace, settings.shutdown_spread)
            )
            draining.create_task(self.requests.drain(settings.shutdown_grace))
            if self._asynchronous is not None:
                draining.create_task(self._asynchronous.drain(settings.shutdown_grace))
        self._connections.close()
        self._listener.stop()
        async with asyncio.TaskGroup() as servers:
            servers.create_task(self._http1.shutdown(settings.shutdown_hard / 2))  # it waits twice
            servers.create_task(self._http2.shutdown(settings.shutdown_hard))
            servers.create_task(self._stop_fleet())
        await self._control.aclose()
        self.prediction_workers.close()

    def _described(self) -> Iterable[EndpointStatus]:
        """All whose instances print, as logs know them."""
        return *self.endpoints.describe(), *self._transforms.describe()

    async def _stop_fleet(self) -> None:
        try:
            await asyncio.gather(self._transforms.aclose(), self.fleet.stop())
        finally:
            await self.endpoint_keeper.aclose()
            if self._leftovers is not None:
                self._leftovers.cancel()
                await asyncio.wait((self._leftovers,))
            await self._provisions.aclose()


def _own_files(settings: Settings, data: DataDirectory | None) -> Iterable[Path]:
    """What the gateway reads and keeps that holds secrets."""
    files = (settings.principals, settings.tls_key, None if data is None else data.path)
    return [each for each in files if each is not None]


def _authenticator(
    settings: Settings, arns: Arns, wall_clock: Callable[[], float]
) -> Authenticator:
    if settings.auth == "none":
        return NoAuthentication()
    assert settings.principals is not None, "the settings have been checked"
    return SigV4Authentication(Principals(settings.principals, wall_clock), arns, wall_clock)
