"""A cluster for the checks of this folder, and a namespace of it for each."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.kubernetes.cluster import Cluster, programs

if TYPE_CHECKING:
    from tests.interop.kubernetes.operators import Operators


@pytest.fixture(scope="session")
def cluster_programs() -> Path:
    """The folder of the built programs."""
    if os.geteuid():
        pytest.fail("a cluster needs Linux and root: it makes network namespaces", pytrace=False)
    if Path(sys.executable).is_relative_to("/tmp"):
        text = f"{sys.executable} is this Python; a pod has a /tmp of its own, so move the checkout"
        pytest.fail(text, pytrace=False)
    try:
        return programs()
    except RuntimeError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def cluster(cluster_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, and a control plane that soon notices the loss of one."""
    with Cluster.start(cluster_programs, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, which goes with all that is in it."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:63].strip("-")
    with cluster.namespace(name):
        yield name


@pytest.fixture(scope="session")
def kinds(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The cluster has the kinds of custom objects."""
    from tests.interop.kubernetes.operators import define_kinds

    define_kinds(cluster, tmp_path_factory.mktemp("definitions"))


@pytest.fixture
def operators(cluster: Cluster, namespace: str, kinds: None, tmp_path: Path) -> Iterator[Operators]:
    """Starts operators of the test's namespace."""
    # Imported here, so that the cluster's own checks need no operator.
    from tests.interop.kubernetes.operators import Operators

    operators = Operators(cluster, namespace, tmp_path)
    yield operators
    operators.end()
