"""The variables and the volumes of a pod's spec, with what they refer to in the cluster."""

from __future__ import annotations

import base64
from pathlib import Path

from tests.interop.kubernetes.api import Api, ApiError, Object
from tests.interop.kubernetes.container import expanded


class SpecError(Exception):
    """The spec refers to an object that does not exist, or needs a real kubelet."""


class PodSpec:
    """A pod's spec on its node.

    Args:
        server: variables of every container: where the API server is.
        folder: of the pod; its volumes are made below it.
    """

    def __init__(self, pod: Object, api: Api, *, server: dict[str, str], folder: Path) -> None:
        self._pod, self._api = pod, api
        self._namespace = pod["metadata"]["namespace"]
        self._server, self._folder = server, folder
        self._volumes: dict[str, Path] = {}

    # --- Variables -------------------------------------------------------------------------------

    async def environment(self, container: Object, address: str, node: str) -> dict[str, str]:
        """The container's variables.

        Raises:
            SpecError: One refers to what does not exist.
        """
        found = dict(self._server)
        for source in container.get("envFrom", ()):
            for kind in ("configMapRef", "secretRef"):
                if reference := source.get(kind):
                    values = await self._values(kind.removesuffix("Ref"), reference)
                    prefix = source.get("prefix", "")
                    found |= {f"{prefix}{name}": each.decode() for name, each in values.items()}
        for each in container.get("env", ()):
            value = each.get("value", "")
            if "valueFrom" in each:
                value = await self._value(each["valueFrom"], address, node)
            if value is not None:
                found[each["name"]] = expanded(value, found)
        return found

    async def _value(self, source: Object, address: str, node: str) -> str | None:
        match source:
            case {"fieldRef": {"fieldPath": path}}:
                return self._field(path, address, node)
            case {"configMapKeyRef": reference}:
                values = await self._values("configMap", reference)
            case {"secretKeyRef": reference}:
                values = await self._values("secret", reference)
            case _:
                raise SpecError(f"valueFrom: {sorted(source)} is not supported here")
        if reference["key"] in values:
            return values[reference["key"]].decode()
        if reference.get("optional"):
            return None
        raise SpecError(f"{reference['name']} has no key {reference['key']}")

    def _field(self, path: str, address: str, node: str) -> str:
        special = {
            "status.podIP": address,
            "status.hostIP": node,
            "spec.nodeName": self._pod["spec"]["nodeName"],
            "spec.serviceAccountName": self._pod["spec"].get("serviceAccountName", "default"),
        }
        if path in special:
            return special[path]
        top, _, rest = path.partition(".")
        if top == "metadata" and rest.endswith("']"):
            name, _, key = rest.removesuffix("']").partition("['")
            return str(self._pod["metadata"].get(name, {}).get(key, ""))
        if top == "metadata" and rest in {"name", "namespace", "uid"}:
            return str(self._pod["metadata"][rest])
        raise SpecError(f"fieldPath: {path} is not supported here")

    # --- Volumes ---------------------------------------------------------------------------------

    async def make_volumes(self) -> dict[str, Path]:
        """Make the pod's volumes; each is a folder.

        Raises:
            SpecError: One refers to what does not exist.
        """
        for volume in self._pod["spec"].get("volumes", ()):
            folder = self._folder / "volumes" / volume["name"]
            folder.mkdir(parents=True, exist_ok=True)
            match volume:
                case {"emptyDir": _}:
                    pass
                case {"hostPath": {"path": path}}:
                    folder = Path(path)
                case {"configMap": source}:
                    await self._fill(folder, "configMap", source)
                case {"secret": source}:
                    await self._fill(folder, "secret", {"name": source["secretName"], **source})
                case {"projected": {"sources": sources}}:
                    for each in sources:
                        [(kind, source)] = each.items()
                        await self._fill(folder, kind, source)
                case _:
                    kinds = sorted(volume.keys() - {"name"})
                    raise SpecError(f"volume {volume['name']}: {kinds} is not supported here")
            self._volumes[volume["name"]] = folder
        return self._volumes

    async def _fill(self, folder: Path, kind: str, source: Object) -> None:
        values = await self._values(kind, source)
        items = source.get("items", [{"key": key, "path": key} for key in values])
        for item in items:
            if item["key"] not in values:
                raise SpecError(f"{kind} {source['name']} has no key {item['key']}")
            file = folder / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(values[item["key"]])

    def mounts(self, container: Object) -> list[str]:
        """The sources and places of the container's volumes."""
        found = []
        for mount in container.get("volumeMounts", ()):
            source = self._volumes[mount["name"]] / mount.get("subPath", "")
            if "subPath" in mount and not source.exists():
                source.mkdir(parents=True)
            found += [str(source), mount["mountPath"]]
        return found

    # --- Objects ---------------------------------------------------------------------------------

    async def _values(self, kind: str, reference: Object) -> dict[str, bytes]:
        """The values of a ConfigMap or a Secret; none where it may be missing."""
        plural = {"configMap": "configmaps", "secret": "secrets"}.get(kind)
        if plural is None:
            raise SpecError(f"{kind} is not supported here")
        name = reference["name"]
        try:
            found = await self._api.ask(
                "GET", f"/api/v1/namespaces/{self._namespace}/{plural}/{name}"
            )
        except ApiError as error:
            if error.status == 404 and reference.get("optional"):
                return {}
            raise SpecError(str(error)) from error
        if kind == "secret":
            data = found.get("data") or {}
            return {key: base64.b64decode(value) for key, value in data.items()}
        binary = found.get("binaryData") or {}
        return {
            **{key: value.encode() for key, value in (found.get("data") or {}).items()},
            **{key: base64.b64decode(value) for key, value in binary.items()},
        }
