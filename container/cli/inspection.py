"""Inspection of a file of records."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import numpy as np

from partway.container.cli.record_files import RecordFile, opened
from partway.protocol.formats import Batch, MediaFault, SparseRows


@dataclass(slots=True)
class Findings:
    """Statistics of the records.

    Attributes:
        sparse: number of records in sparse batches.
        width: number of features per record.
        given: numbers stored in the sparse records.
        labels: number of labels per record.
        beside: number of records with each of the members beside the numbers.
    """

    records: int = 0
    sparse: int = 0
    width: int = 0
    given: int = 0
    not_finite: int = 0
    labels: int = 0
    dtypes: set[str] = field(default_factory=set)
    beside: dict[str, int] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        self.records += len(batch)
        self.width = max(self.width, batch.width)
        features = batch.features
        numbers = features.values if isinstance(features, SparseRows) else features
        self.dtypes.add(numbers.dtype.name)
        if numbers.dtype.kind == "f":
            self.not_finite += int(np.count_nonzero(~np.isfinite(numbers)))
        if isinstance(features, SparseRows):
            self.sparse += len(batch)
            self.given += len(numbers)
        if batch.labels is not None:
            self.labels = batch.labels.shape[1]
        kept = {
            "uid": batch.uid,
            "metadata": batch.metadata,
            "configuration": batch.configurations,
            "qid": batch.queries,
        }
        for name, values in kept.items():
            if values is not None:
                here = sum(each is not None for each in values)
                self.beside[name] = self.beside.get(name, 0) + here

    def rows(self) -> list[tuple[str, str]]:
        """Describe the findings: pairs of name and text."""
        rows = [("records", f"{self.records:,}")]
        if self.records:
            rows.append(("features", self._features()))
            rows.append(("numbers", ", ".join(sorted(self.dtypes))))
        if self.not_finite:
            rows.append(("not finite", f"{self.not_finite:,} numbers"))
        if self.labels:
            rows.append(("labels", f"{self.labels} of each record"))
        rows += [(name, f"{count:,} records have one") for name, count in self.beside.items()]
        return rows

    def _features(self) -> str:
        if not self.sparse:
            return f"{self.width:,}, dense"
        if self.sparse < self.records:
            return f"{self.width:,}, dense and sparse"
        share = self.given / (self.records * self.width)
        return f"{self.width:,}, sparse: {share:.2%} of the numbers are given"


def inspect(options: argparse.Namespace) -> tuple[list[tuple[str, str]], bool]:
    """Read a file to its end, or to its first fault.

    Returns:
        The findings, as pairs of name and text, and whether the file has no fault.

    Raises:
        CommandError: the file cannot be read, or its type is unknown.
    """
    with opened(options) as source:
        findings = Findings()
        fault = _read(source, findings)
        rows = [("type", source.content_type), *findings.rows()]
        if fault is not None:
            rows.append(("broken", fault.reason))
    return rows, fault is None


def _read(source: RecordFile, findings: Findings) -> MediaFault | None:
    decoder = source.decoder()
    try:
        for chunk in source.chunks():
            for batch in decoder.feed(chunk):
                findings.add(batch)
        for batch in decoder.finish():
            findings.add(batch)
    except MediaFault as fault:
        return fault
    return None
