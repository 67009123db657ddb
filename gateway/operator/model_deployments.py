"""From a DeployedModel to its Deployment, headless Service and PodDisruptionBudget: pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from partway.gateway.apis.kubernetes.custom_object import CustomObject
from partway.gateway.apis.kubernetes.endpoint_rules import endpoint_of
from partway.gateway.cluster.answers import ClusterObject
from partway.gateway.cluster.model_labels import ENDPOINT_LABEL, MODEL_LABEL, PREFIX
from partway.gateway.fleet.limits import PING_TIMEOUT, START_TIMEOUT, STOP_GRACE
from partway.gateway.fleet.platform_interface import PING, PORT, PORT_VARIABLE
from partway.gateway.operator.limits import FETCH_MEMORY, FETCH_PROCESSORS
from partway.gateway.operator.pod_options import PodOptions, pod_options
from partway.gateway.storage.limits import MODEL_DATA_QUOTA
from partway.protocol.limits import MIB

Manifest = dict[str, Any]

#: The label of a pod that gateways cannot reach. Its node gets no further pod of its model while it
#: lasts.
UNREACHABLE_LABEL: Final = f"{PREFIX}unreachable"

_MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "partway-operator"}

#: The annotation with the digest of the manifest that an object was made from.
MADE_OF: Final = f"{PREFIX}made-of"

_ARTIFACTS: Final = "/opt/ml/model"  # clause 1.1-6
_DATA: Final = "model-data"
_DATA_ROOM: Final = "/model-data"
_PORT_NAME: Final = "http"

#: The name of the container that serves the model.
CONTAINER: Final = "model"

#: Seconds that a pod stays on a node that Kubernetes calls lost. Its default, 300, is too long for
#: a stream's client. But after an absence of the API server a node is called lost until its
#: kubelet is heard, which is up to 10 s and a retry.
_UNREACHABLE_SECONDS: Final = 20

#: Seconds between two pings of a starting, and of a ready container, and how many may fail.
_STARTUP_PERIOD: Final = 1
_READY_PERIOD: Final = 1
_READY_FAILURES: Final = 3

#: Seconds beyond the start's time until a rollout has failed: for images and nodes to come.
_ROLLOUT_MARGIN: Final = 600

#: Earlier ReplicaSets that are kept, for ``kubectl rollout undo``.
_HISTORY: Final = 2

#: Seconds between a pod's mark as terminating and its SIGTERM, by default: gateways learn of the
#: mark within one. Kubernetes itself waits, from version 1.30 on.
_DRAIN: Final = 2

#: Containers that crash may say why on their last lines of output (2 KiB at most).
_LAST_WORDS: Final = {"terminationMessagePolicy": "FallbackToLogsOnError"}


class Abilities(NamedTuple):
    """Differences between versions of Kubernetes, as far as manifests depend on them.

    Attributes:
        sleeps: whether a pod can wait before SIGTERM by itself.
        policy: the API version of PodDisruptionBudgets.
        slices: the API version of EndpointSlices.
    """

    sleeps: bool = True
    policy: str = "policy/v1"
    slices: str = "discovery.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class ModelDataAccess:
    """How an init container fetches a model's data.

    Attributes:
        image: the image of Partway; empty if none is known, so that no data can be fetched.
        secret: the Secret with the variables of its access to S3; empty for none.
        roots: the folders at ``s3://`` that models may have data from; none for all.
        pull_secrets: Secrets by which that image is pulled.
    """

    image: str = ""
    secret: str = ""
    roots: tuple[str, ...] = ()
    pull_secrets: tuple[str, ...] = ()


class Manifests(NamedTuple):
    """The objects of a DeployedModel, all of its name."""

    service: Manifest
    budget: Manifest
    deployment: Manifest


def manifests(model: CustomObject, data: ModelDataAccess, can: Abilities) -> Manifests:
    """Return the objects of a DeployedModel without faults."""
    options, _ = pod_options(model.annotations)
    service, budget = _service(model), _budget(model, can)
    # A new version of the operator, or of the cluster, replaces no pods.
    lasting = _deployment(model, options, replace(data, image=""), drain=0)
    deployment = _deployment(model, options, data, drain=_DRAIN if can.sleeps else 0)
    return Manifests(
        _marked(service, service), _marked(budget, budget), _marked(deployment, lasting)
    )


def is_owned(found: ClusterObject, model: CustomObject) -> bool:
    """Whether an object of a cluster belongs to this very DeployedModel."""
    owners = found["metadata"].get("ownerReferences") or ()
    return any(each.get("uid") == model.uid for each in owners)


def is_made_of(found: ClusterObject, wanted: ClusterObject) -> bool:
    """Whether an object was made from this manifest."""
    made = (found["metadata"].get("annotations") or {}).get(MADE_OF)
    return bool(made == wanted["metadata"]["annotations"][MADE_OF])


def in_place_of(found: ClusterObject, wanted: Manifest) -> Manifest:
    """Return what replaces an object: the wanted one, with what others have decided.

    These are the object's identity, the number of pods unless the DeployedModel has one, the
    cluster's address of a Service, and the annotations and finalizers of others.
    """
    metadata = found["metadata"]
    annotations = {**(metadata.get("annotations") or {}), **wanted["metadata"]["annotations"]}
    kept = {
        key: metadata[key] for key in ("resourceVersion", "uid", "finalizers") if key in metadata
    }
    spec = dict(wanted["spec"])
    for member in ("replicas", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if member in found["spec"] and (member not in spec or member == "clusterIP"):
            spec[member] = found["spec"][member]
    return {
        **wanted,
        "metadata": {**wanted["metadata"], **kept, "annotations": annotations},
        "spec": spec,
    }


def _marked(made: Manifest, lasting: Manifest) -> Manifest:
    """Mark an object by the digest of the part that has it replaced when it changes."""
    text = json.dumps(lasting, sort_keys=True).encode()
    digest = hashlib.sha256(text).hexdigest()[:16]
    return {**made, "metadata": {**made["metadata"], "annotations": {MADE_OF: digest}}}


def _metadata(model: CustomObject) -> Manifest:
    return {
        "name": model.name,
        "namespace": model.namespace,
        "labels": _labels(model),
        # Not "blockOwnerDeletion", which needs a right on the owner's finalizers.
        "ownerReferences": [
            {
                "apiVersion": model.kind.api_version,
                "kind": model.kind.kind,
                "name": model.name,
                "uid": model.uid,
                "controller": True,
            }
        ],
    }


def _labels(model: CustomObject) -> dict[str, str]:
    return {**_selector(model), ENDPOINT_LABEL: endpoint_of(model), **_MANAGED_BY}


def _selector(model: CustomObject) -> dict[str, str]:
    return {MODEL_LABEL: model.name}


def _service(model: CustomObject) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(model),
        "spec": {
            "clusterIP": "None",  # gateways choose the pod themselves
            "selector": _selector(model),
            "ports": [{"name": _PORT_NAME, "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
        },
    }


def _budget(model: CustomObject, can: Abilities) -> Manifest:
    """Let a drain of nodes take one pod at a time, and any that is not ready."""
    spec: Manifest = {"maxUnavailable": 1, "selector": {"matchLabels": _selector(model)}}
    if can.policy == "policy/v1":
        spec["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    return {
        "apiVersion": can.policy,
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(model),
        "spec": spec,
    }


def _deployment(
    model: CustomObject, options: PodOptions, data: ModelDataAccess, *, drain: int
) -> Manifest:
    """Return the Deployment of a DeployedModel.

    Args:
        drain: seconds before SIGTERM, unless the DeployedModel says how many.
    """
    if options.drain_seconds is None:
        options = replace(options, drain_seconds=drain)
    startup = options.startup_seconds or int(START_TIMEOUT)
    replicas = {} if options.replicas is None else {"replicas": options.replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(model),
        "spec": {
            **replicas,
            "selector": {"matchLabels": _selector(model)},
            "progressDeadlineSeconds": startup + _ROLLOUT_MARGIN,
            "revisionHistoryLimit": _HISTORY,
            # A new version starts beside the running one, and no pod leaves before its successor.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": {
                "metadata": {"labels": _labels(model)},
                "spec": _pod(model, options, data, startup),
            },
        },
    }


def _pod(model: CustomObject, options: PodOptions, data: ModelDataAccess, startup: int) -> Manifest:
    spec = model.spec["modelSpec"]
    pod: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # no variables of other Services
        "terminationGracePeriodSeconds": (options.drain_seconds or 0)
        + (options.termination_seconds or int(STOP_GRACE)),
        "containers": [_container(spec["modelContainerSpec"], options, startup)],
        "tolerations": [*options.tolerations, *_unreachable()],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _selector(model)},
            }
        ],
        "affinity": {"podAntiAffinity": _not_beside_an_unreachable_pod(model)},
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    if options.node_selector:
        pod["nodeSelector"] = dict(options.node_selector)
    if options.service_account:
        pod["serviceAccountName"] = options.service_account
    (container,) = pod["containers"]
    if options.volume is not None:
        claim, folder = options.volume
        source = {"claimName": claim, "readOnly": True}
        pod["volumes"] = [{"name": _DATA, "persistentVolumeClaim": source}]
        container["volumeMounts"] = [_mount(folder)]
    elif "artifactLocation" in spec:
        room = {"sizeLimit": f"{MODEL_DATA_QUOTA // MIB}Mi"}
        pod["volumes"] = [{"name": _DATA, "emptyDir": room}]
        pod["initContainers"] = [_fetching(spec["artifactLocation"], data)]
        container["volumeMounts"] = [_mount("model")]
        # These would take the place of those that an account has.
        if data.pull_secrets and not options.service_account:
            pod["imagePullSecrets"] = [{"name": each} for each in data.pull_secrets]
    return pod


def _container(spec: Mapping[str, Any], options: PodOptions, startup: int) -> Manifest:
    ping = {"path": PING, "port": PORT}
    container: Manifest = {
        "name": CONTAINER,
        "image": spec["imageURI"],
        "args": ["serve"],  # clause 1.1-1
        "env": [
            {"name": PORT_VARIABLE, "value": str(PORT)},
            *(
                {"name": each["name"], "value": _literal(each.get("value", ""))}
                for each in spec.get("env", ())
            ),
        ],
        "ports": [{"name": _PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": {
            "httpGet": ping,
            "periodSeconds": _STARTUP_PERIOD,
            "timeoutSeconds": int(PING_TIMEOUT),
            "failureThreshold": -(-startup // _STARTUP_PERIOD),
        },
        "readinessProbe": {
            "httpGet": ping,
            "periodSeconds": _READY_PERIOD,
            "timeoutSeconds": int(PING_TIMEOUT),
            "failureThreshold": _READY_FAILURES,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["MKNOD", "NET_RAW"]},
        },
        **_LAST_WORDS,
    }
    resources = {"requests": options.requests, "limits": options.limits}
    if given := {name: dict(each) for name, each in resources.items() if each}:
        container["resources"] = given
    if options.drain_seconds:
        # Kubernetes itself waits, so that the image needs no program for it.
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": options.drain_seconds}}}
    return container


def _fetching(place: str, data: ModelDataAccess) -> Manifest:
    container: Manifest = {
        "name": "model-data",
        "image": data.image,
        "args": ["fetch", _literal(place), f"{_DATA_ROOM}/model"],
        "volumeMounts": [{"name": _DATA, "mountPath": _DATA_ROOM}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": FETCH_PROCESSORS, "memory": FETCH_MEMORY},
            "limits": {"memory": FETCH_MEMORY},
        },
        **_LAST_WORDS,
    }
    if data.secret:
        container["envFrom"] = [{"secretRef": {"name": data.secret}}]
    return container


def _mount(folder: str) -> Manifest:
    mount: Manifest = {"name": _DATA, "mountPath": _ARTIFACTS, "readOnly": True}
    return {**mount, "subPath": folder} if folder else mount


def _unreachable() -> Iterator[Manifest]:
    for taint in ("unreachable", "not-ready"):
        yield {
            "key": f"node.kubernetes.io/{taint}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _UNREACHABLE_SECONDS,
        }


def _not_beside_an_unreachable_pod(model: CustomObject) -> Manifest:
    """Keep a pod from the node of an unreachable one of its model.

    That node looks free, since its pod is being deleted, and Kubernetes takes up to 50 s to notice
    its loss. A pod on a node without a kubelet stays an object until the node is back or removed. A
    preference would not do: the spread of a model's pods prefers the free node, and weighs as much
    or more by default.
    """
    unreachable = [{"key": UNREACHABLE_LABEL, "operator": "Exists"}]
    selector = {"matchLabels": _selector(model), "matchExpressions": unreachable}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _literal(value: str) -> str:
    """Keep Kubernetes from replacing ``$(NAME)`` in a value: it reads ``$$`` as ``$``."""
    return value.replace("$", "$$")
