"""The file of settings: its tables, and the endpoints in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from partway.gateway.cluster.cluster_settings import ClusterNotFound, ClusterSettings, find_cluster
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.configuration.reader import Document
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.settings.cluster_table import ClusterTable
from partway.gateway.settings.endpoint_context import Surroundings
from partway.gateway.settings.endpoint_reader import endpoints_of
from partway.gateway.settings.endpoint_tables import EndpointTable
from partway.gateway.settings.shared_values import Name
from partway.gateway.settings.top_level import CommonTables


@dataclass(frozen=True)
class SettingsFile(CommonTables):
    """All tables of a file."""

    cluster: ClusterTable = field(default_factory=ClusterTable)
    endpoints: dict[Name, EndpointTable] = field(default_factory=dict)


def endpoints_of_file(
    file: CommonTables, document: Document, around: Surroundings
) -> dict[str, Endpoint]:
    """Return the endpoints of a file; see :func:`.endpoint_reader.endpoints_of`."""
    assert isinstance(file, SettingsFile)
    return endpoints_of(file.endpoints, document, around)


def cluster_of(
    file: CommonTables,
    folder: Path | None,
    environment: Mapping[str, str],
    endpoints: Collection[Endpoint],
) -> ClusterTable:
    """Return the cluster of a file, which is looked for if something is read there.

    Args:
        folder: the base of relative paths in the file.

    Raises:
        SettingsError: something is read there, and the cluster cannot be located.
    """
    assert isinstance(file, SettingsFile)
    cluster = dataclasses.replace(
        file.cluster,
        token_file=_placed(folder, file.cluster.token_file),
        ca_file=_placed(folder, file.cluster.ca_file),
    )
    discovered = [f"endpoints.{each.name}" for each in endpoints if each.is_discovered]
    if discovered or cluster.is_followed:
        try:
            located(cluster, environment)
        except ClusterNotFound as error:
            raise SettingsError(f"{(*discovered, 'cluster')[0]}: {error}") from None
    return cluster


def _placed(folder: Path | None, path: Path | None) -> Path | None:
    return path if folder is None or path is None else folder / path


def located(cluster: ClusterTable, environment: Mapping[str, str]) -> ClusterSettings:
    """Locate the API server of a cluster.

    Raises:
        ClusterNotFound: no server is given, and this process runs in no cluster.
    """
    return find_cluster(
        *(cluster.server or "", cluster.token_file, cluster.ca_file, cluster.namespace or ""),
        environment=environment,
    )
