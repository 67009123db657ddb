"""An unmodified kubectl against a real Kubernetes API server, and ``partway operator``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.kubectl_contract import Kubectl, KubectlContract
from tests.interop.kubernetes.cluster import Cluster
from tests.interop.kubernetes.control_plane import ADMIN

if TYPE_CHECKING:
    from tests.interop.kubernetes.operators import Operators

pytestmark = pytest.mark.timeout(300)

READING = {
    "apiGroups": ["prediction.aiplatform.gdc.goog", "aiplatform.gdc.goog"],
    "resources": ["deployedmodels", "endpoints"],
    "verbs": ["get", "list", "watch"],
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


class TestARealServer(KubectlContract):
    @pytest.fixture
    def kubectl(
        self, cluster: Cluster, namespace: str, operators: Operators, tmp_path: Path
    ) -> Kubectl:
        operators.start()
        return Kubectl(tmp_path, cluster.kubeconfig_of(ADMIN, namespace=namespace))

    @pytest.fixture
    def reader(
        self, cluster: Cluster, namespace: str, operators: Operators, tmp_path: Path
    ) -> Kubectl:
        token = cluster.account(namespace, "reader", [READING])
        return Kubectl(tmp_path, cluster.kubeconfig_of("reader", token=token, namespace=namespace))

    @pytest.fixture
    def nobody(self, cluster: Cluster, namespace: str, tmp_path: Path) -> Kubectl:
        token = "nobodys-token-at-all"
        return Kubectl(tmp_path, cluster.kubeconfig_of("nobody", token=token, namespace=namespace))
