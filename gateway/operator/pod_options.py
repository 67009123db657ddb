"""PodOptions: what a DeployedModel's annotations say of its pods.

The documented members of a DeployedModel do not name nodes, GPUs or volumes. So annotations do, in
the forms that kubectl has for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from partway.gateway.apis.kubernetes.schemas import Cause, fault
from partway.gateway.cluster.model_labels import PREFIX
from partway.gateway.plain_text import cut, safe

_SHOWN: Final = 64
_MAX_REPLICAS: Final = 1000
_MAX_SECONDS: Final = 86_400
_MAX_DIGITS: Final = 9

_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_QUALIFIED: Final = rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}"
_PAIR: Final = re.compile(rf"({_QUALIFIED})=((?:{_NAME})?)")
_QUANTITY: Final = re.compile(rf"({_QUALIFIED})=([0-9]+(?:\.[0-9]+)?(?:[numkMGTPE]|[KMGTPE]i)?)")
_TOLERATION: Final = re.compile(
    rf"({_QUALIFIED})(?:=({_NAME}))?:(NoSchedule|PreferNoSchedule|NoExecute)"
)
_OBJECT_NAME: Final = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_VOLUME: Final = re.compile(rf"({_OBJECT_NAME})(?:/((?!.*\.\.)[A-Za-z0-9_.][A-Za-z0-9_./-]*))?")


@dataclass(frozen=True, slots=True)
class PodOptions:
    """Attributes of the pods of a DeployedModel.

    Attributes:
        replicas: the number of pods; None to leave it to others, such as an autoscaler.
        requests: resources that the container is scheduled by, as Kubernetes has them.
        limits: resources that the container gets at most; GPUs are among them.
        volume: a PersistentVolumeClaim with the model's data, and a folder in it.
        service_account: empty for the namespace's default one.
        startup_seconds: until ``/ping`` is answered; None for the contract's time.
        drain_seconds: from the mark as terminating, after which a pod gets nothing new, to SIGTERM;
            None for the operator's default.
        termination_seconds: from SIGTERM to SIGKILL; None for the contract's time.
    """

    replicas: int | None = None
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    volume: tuple[str, str] | None = None
    service_account: str = ""
    startup_seconds: int | None = None
    drain_seconds: int | None = None
    termination_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class PodAnnotation:
    """One annotation.

    Attributes:
        option: the name in :class:`PodOptions`.
        form: completes "it must be …".
        what: its meaning, for the reference.
        read: returns the option's value; raises ValueError for another form.
    """

    option: str
    form: str
    what: str
    read: Callable[[str], Any]


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        is_short = len(text) <= _MAX_DIGITS and text.isascii() and text.isdecimal()
        if not is_short or not least <= int(text) <= most:
            raise ValueError
        return int(text)

    return read


def _matches(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    found = [pattern.fullmatch(each.strip()) for each in text.split(",")]
    if None in found:
        raise ValueError
    return [each for each in found if each is not None]


def _pairs(pattern: re.Pattern[str]) -> Callable[[str], dict[str, str]]:
    return lambda text: {each[1]: each[2] for each in _matches(pattern, text)}


def _tolerations(text: str) -> tuple[dict[str, str], ...]:
    return tuple(
        {
            "key": each[1],
            **({"operator": "Equal", "value": each[2]} if each[2] else {"operator": "Exists"}),
            "effect": each[3],
        }
        for each in _matches(_TOLERATION, text)
    )


def _volume(text: str) -> tuple[str, str]:
    (found,) = _matches(_VOLUME, text)
    return found[1], (found[2] or "").rstrip("/")


def _account(text: str) -> str:
    (found,) = _matches(re.compile(_OBJECT_NAME), text)
    return found[0]


#: The annotations, by their names without the prefix.
ANNOTATIONS: Final[Mapping[str, PodAnnotation]] = {
    "replicas": PodAnnotation(
        "replicas",
        f"a whole number from 0 to {_MAX_REPLICAS}",
        "The number of pods. Without it there is one at first, and `kubectl scale` or an "
        "autoscaler may change the number.",
        _whole(0, _MAX_REPLICAS),
    ),
    "requests": PodAnnotation(
        "requests",
        "resources such as cpu=4,memory=16Gi",
        "The resources by which a pod is scheduled, as for `kubectl set resources`.",
        _pairs(_QUANTITY),
    ),
    "limits": PodAnnotation(
        "limits",
        "resources such as memory=16Gi,nvidia.com/gpu=1",
        "The resources that a pod gets at most. GPUs are among them.",
        _pairs(_QUANTITY),
    ),
    "node-selector": PodAnnotation(
        "node_selector",
        "labels such as pool=models,zone=a",
        "The labels of the nodes that may run a pod.",
        _pairs(_PAIR),
    ),
    "tolerations": PodAnnotation(
        "tolerations",
        "taints such as nvidia.com/gpu:NoSchedule,pool=models:NoExecute",
        "The taints that a pod tolerates, as for `kubectl taint`.",
        _tolerations,
    ),
    "model-volume": PodAnnotation(
        "volume",
        "a PersistentVolumeClaim and a folder in it, such as models/chat/3",
        "The volume with the model's data, which the container finds in `/opt/ml/model`, "
        "read-only.",
        _volume,
    ),
    "service-account": PodAnnotation(
        "service_account",
        "a ServiceAccount's name",
        "The ServiceAccount, which has the secrets to pull images. Its token is not mounted.",
        _account,
    ),
    "startup-seconds": PodAnnotation(
        "startup_seconds",
        f"a whole number of seconds from 1 to {_MAX_SECONDS}",
        "The time from a container's start until it answers `/ping`: 480 by default.",
        _whole(1, _MAX_SECONDS),
    ),
    "drain-seconds": PodAnnotation(
        "drain_seconds",
        f"a whole number of seconds from 0 to {_MAX_SECONDS}",
        "The time for streams to end by themselves before SIGTERM, when a pod is replaced or "
        "scaled down. A pod that stops takes all of it. By default it is 2, or 0 in a cluster "
        "before Kubernetes 1.30, which cannot wait.",
        _whole(0, _MAX_SECONDS),
    ),
    "termination-seconds": PodAnnotation(
        "termination_seconds",
        f"a whole number of seconds from 1 to {_MAX_SECONDS}",
        "The time from SIGTERM to SIGKILL: 30 by default.",
        _whole(1, _MAX_SECONDS),
    ),
}


def pod_options(annotations: Mapping[str, str]) -> tuple[PodOptions, list[Cause]]:
    """Read a DeployedModel's annotations; others than ours are of no concern.

    Returns:
        The options, and the faults of annotations that cannot be honoured.
    """
    found, faults = dict[str, Any](), list[Cause]()
    for name, text in _ours(annotations):
        known = ANNOTATIONS.get(name)
        path = f"metadata.annotations.{PREFIX}{cut(safe(name), _SHOWN)}"
        if known is None:
            faults.append(fault(path, f"unknown; there are: {', '.join(ANNOTATIONS)}"))
            continue
        try:
            found[known.option] = known.read(text)
        except ValueError:
            shown = repr(cut(safe(text), _SHOWN))
            faults.append(fault(path, f"{shown} was given; it must be {known.form}"))
    return PodOptions(**found), faults


def _ours(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in annotations.items():
        if name.startswith(PREFIX):
            yield name.removeprefix(PREFIX), text
