"""etcd, a real API server, its controllers and its scheduler, on a host of their own."""

from __future__ import annotations

import json
import secrets
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from partway.gateway.tls.local_ca import LocalCa
from tests.conftest import ROOT
from tests.interop.kubernetes.hosts import Host

ADMIN = "admin"
PORT = 6443
ETCD = "http://127.0.0.1:2379"
ISSUER = "https://kubernetes.default.svc"

#: Seconds for a program to be ready on a busy machine.
PATIENCE = 120.0


class NodeTimes(NamedTuple):
    """How fast a cluster notices that a node is lost; all in seconds.

    Attributes:
        heartbeat: between two of a kubelet's.
        monitor_period: between two looks at all nodes.
        monitor_grace: for which a node may be silent.
    """

    heartbeat: float
    monitor_period: int
    monitor_grace: int


#: A cluster's own, and shorter ones, so that a test need not wait.
DEFAULT_TIMES = NodeTimes(10, 5, 40)
SHORT_TIMES = NodeTimes(1, 1, 4)


def until(met: Callable[[], object], awaited: str, patience: float = PATIENCE) -> None:
    """Wait for a condition.

    Args:
        awaited: the message if it is not met in time.

    Raises:
        TimeoutError: It was not met in time.
    """
    deadline = time.monotonic() + patience
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {patience:.0f} s: {awaited}")
        time.sleep(0.05)


class Program:
    """A program that runs on a host for as long as the cluster does, unless it is stopped."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.log = log
        self._words = list(words)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._words,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def check(self) -> None:
        """Fail if it has ended by itself."""
        if self._process is not None and (status := self._process.poll()) is not None:
            raise AssertionError(f"{self.log.stem} ended with {status}; its log: {self.log}")

    def freeze(self) -> None:
        """Let it do nothing: its connections stay, and nobody answers."""
        self._signal(SIGSTOP)

    def thaw(self) -> None:
        self._signal(SIGCONT)

    def kill(self) -> None:
        """End it; its port refuses connections until it is started again."""
        if self._process is not None:
            self._signal(SIGKILL)
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """It has been ended from outside."""
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _signal(self, number: int) -> None:
        assert self._process is not None, f"{self.log.stem} does not run"
        self._process.send_signal(number)


class Refused(Exception):
    """The API server refused a request; ``status`` is HTTP's, ``answer`` is its Status object."""

    def __init__(self, status: int, answer: dict[str, Any]) -> None:
        super().__init__(f"{status}: {answer.get('message')}")
        self.status, self.answer = status, answer


class ControlPlane:
    """The control plane.

    Attributes:
        url: of the API server.
        ca: the file with the certificate that it is trusted by.
        tokens: of its users, by their names; the one of ``admin`` may do everything.
    """

    def __init__(
        self,
        programs: Path,
        host: Host,
        folder: Path,
        logs: Path,
        *,
        services: str,
        users: Iterable[str],
        times: NodeTimes,
    ) -> None:
        self.url = f"https://{host.address}:{PORT}"
        self.tokens = {user: secrets.token_hex(16) for user in (ADMIN, *users)}
        self._folder = folder
        self._write_keys(host.address)
        self.kubeconfig = self.kubeconfig_of(ADMIN)

        def program(name: str, *flags: str) -> Program:
            words = host.command(str(programs / name), *flags)
            return Program(words, logs / f"{name}.log")

        reaching = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--port=0")
        self.etcd = program(
            "etcd",
            *("--data-dir", str(folder / "etcd")),
            *("--listen-client-urls", ETCD, "--advertise-client-urls", ETCD),
            *("--unsafe-no-fsync", "--log-level", "warn"),
        )
        self.api_server = program(
            "kube-apiserver",
            f"--etcd-servers={ETCD}",
            *(f"--bind-address={host.address}", f"--advertise-address={host.address}"),
            f"--secure-port={PORT}",
            *(f"--tls-cert-file={self._certificate}", f"--tls-private-key-file={self._key}"),
            *(f"--token-auth-file={folder / 'tokens.csv'}", "--authorization-mode=RBAC"),
            *(
                f"--service-account-key-file={folder / 'accounts.pub'}",
                f"--service-account-signing-key-file={folder / 'accounts.key'}",
                f"--service-account-issuer={ISSUER}",
            ),
            f"--service-cluster-ip-range={services}",
            "--allow-privileged",
        )
        self.controllers = program(
            "kube-controller-manager",
            *reaching,
            f"--service-account-private-key-file={folder / 'accounts.key'}",
            f"--root-ca-file={self.ca}",
            f"--node-monitor-period={times.monitor_period}s",
            f"--node-monitor-grace-period={times.monitor_grace}s",
        )
        self.scheduler = program("kube-scheduler", *reaching)

    def start(self) -> None:
        """Return when the API server is ready."""
        self.etcd.start()
        self.api_server.start()
        until(self._is_ready, f"the API server is not ready; its log: {self.api_server.log}")
        self.controllers.start()
        self.scheduler.start()

    def _is_ready(self) -> bool:
        self.etcd.check()
        self.api_server.check()
        with suppress(URLError, ConnectionError, TimeoutError):
            self._ask("GET", "/readyz", None, self.tokens[ADMIN], {}, 5.0)
            return True
        return False

    @property
    def programs(self) -> list[Program]:
        return [self.etcd, self.api_server, self.controllers, self.scheduler]

    # --- Requests --------------------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        token: str | None = None,
        kind: str = "application/json",
        timeout: float = 30.0,
    ) -> dict[str, Any]:
        """The answer to a request, as the administrator or with another token.

        Raises:
            Refused: The server refused it.
        """
        try:
            answer = self._ask(
                method, path, body, token or self.tokens[ADMIN], {"Content-Type": kind}, timeout
            )
        except HTTPError as error:
            with error:
                raise Refused(error.code, json.load(error)) from None
        return dict(json.loads(answer))

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        token: str,
        headers: Mapping[str, str],
        timeout: float,
    ) -> bytes:
        request = Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", **headers},
        )
        context = ssl.create_default_context(cafile=self.ca)
        with urlopen(request, timeout=timeout, context=context) as response:
            return bytes(response.read())

    def token_of_account(self, namespace: str, name: str) -> str:
        """A new token of a service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.ask("POST", path, {"spec": {"expirationSeconds": 3600}})
        return str(answer["status"]["token"])

    def kubeconfig_of(
        self, user: str, *, token: str | None = None, namespace: str = "default"
    ) -> Path:
        """A file for ``kubectl``; a token makes a user of a service account."""
        file = self._folder / f"{user}.{namespace}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        context = {"cluster": "tests", "user": user, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token or self.tokens[user]}}],
            "contexts": [{"name": "tests", "context": context}],
            "current-context": "tests",
        }
        file.write_text(json.dumps(config, indent=1), "utf-8")
        return file

    def account(self, namespace: str, name: str, rules: Sequence[Mapping[str, Any]]) -> str:
        """Make a service account with a role of these rules; its token."""
        rbac = "rbac.authorization.k8s.io"
        path = f"/apis/{rbac}/v1/namespaces/{namespace}"
        metadata = {"metadata": {"name": name}}
        self.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", metadata)
        self.ask("POST", f"{path}/roles", {**metadata, "rules": list(rules)})
        binding = {
            **metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        self.ask("POST", f"{path}/rolebindings", binding)
        return self.token_of_account(namespace, name)

    # --- Files -----------------------------------------------------------------------------------

    def _write_keys(self, address: str) -> None:
        files = LocalCa(self._folder / "tls").ensure([address], datetime.now(UTC))
        self.ca, self._certificate, self._key = files.ca, files.certificate, files.key
        accounts = rsa.generate_private_key(65537, 2048)
        (self._folder / "accounts.key").write_bytes(
            accounts.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        (self._folder / "accounts.pub").write_bytes(
            accounts.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        groups = {ADMIN: ',"system:masters"'}
        rows = [
            f"{token},{user},{user}{groups.get(user, '')}" for user, token in self.tokens.items()
        ]
        (self._folder / "tokens.csv").write_text("\n".join(rows), "utf-8")
