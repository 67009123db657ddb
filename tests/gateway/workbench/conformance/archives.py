"""Images' archives, small ones, by hand."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from partway.gateway.fleet.launchers.engine_image import LABEL

#: What a good image says of itself.
GOOD: Mapping[str, Any] = {
    "Entrypoint": ["partway-container"],
    "Cmd": None,
    "Env": ["PATH=/usr/bin", "PARTWAY_MODEL=model:Chat"],
    "ExposedPorts": {"8080/tcp": {}},
    "Labels": {LABEL: "true"},
    "User": "",
    "WorkingDir": "/opt/program",
}

#: A layer's beginning: it is a tar file, and its first bytes are a name.
LAYER = b"usr/bin/partway-container" + bytes(1000)


def tar(members: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def written(directory: Path, members: Mapping[str, bytes], packed: bool = False) -> Path:
    path = directory / ("image.tar.gz" if packed else "image.tar")
    data = tar(members)
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def saved(config: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, bytes]:
    """As docker save writes them; a change to None leaves a member out."""
    document = {"architecture": "amd64", "os": "linux", "config": {**(config or GOOD), **changes}}
    data = json.dumps(document).encode()
    name = f"{hashlib.sha256(data).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": ["a:b"], "Layers": ["0/layer.tar"]}]
    return {
        "0/layer.tar": LAYER,
        name: data,
        "manifest.json": json.dumps(manifest).encode(),
    }


class Layout:
    """An OCI layout; blobs and an index are added to it."""

    def __init__(self) -> None:
        self.members = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def blob(self, document: object, **more: Any) -> dict[str, Any]:
        """Add a document; returns its descriptor."""
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        digest = hashlib.sha256(data).hexdigest()
        self.members[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data), **more}

    def image(self, **changes: Any) -> dict[str, Any]:
        config = self.blob({"config": {**GOOD, **changes}})
        return self.blob({"schemaVersion": 2, "config": config, "layers": [self.blob(LAYER)]})

    def index(self, *manifests: Mapping[str, Any]) -> dict[str, bytes]:
        self.members["index.json"] = json.dumps({"manifests": manifests}).encode()
        return self.members
