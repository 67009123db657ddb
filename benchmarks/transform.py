"""Batch transform beside a loop of aiohttp's and the local mode of SageMaker's SDK, in one run.

``python -m benchmarks.transform`` prints tables in markdown. It fails when a process does not run
or an output is wrong, never for being slow. ``--sdk-python`` is an interpreter that has
``sagemaker==2.257.7``; without it that row is ``unmeasured``. ``docs/discussion/benchmarks.md``
explains the tables.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partway.protocol.formats.recordio import framed
from partway.protocol.limits import MIB
from partway.protocol.records import BatchStrategy, SplitType, splitter

_ROOT: Final = Path(__file__).parent.parent
_LINE: Final = 105  # bytes of a record: 15 numbers


@dataclass
class Row:
    """One way from a file to its output.

    Attributes:
        name: in the table.
        words: of its command; None if it is not here.
        rates: records a second, of each round.
        costs: CPU microseconds of a record in each round, its start included.
    """

    name: str
    words: Sequence[str] | None
    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


def _lines(number: int) -> bytes:
    rng = random.Random(1)
    rows = ((rng.random() for _ in range(15)) for _ in range(number))
    return b"".join(",".join(f"{each:.4f}" for each in row).encode() + b"\n" for row in rows)


@contextmanager
def _container() -> Iterator[str]:
    words = [sys.executable, "-m", "benchmarks.transform_container"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=_ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().split()[-1]
    finally:
        process.kill()
        process.wait()


def _run(words: Sequence[str]) -> tuple[str, float, float]:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.DEVNULL, cwd=_ROOT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(words)} exited with {process.returncode}")
        output.seek(0)
        return output.read().decode(), used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def _transform(url: str, source: Path, target: Path, *more: str) -> list[str]:
    words = [sys.executable, "-m", "partway.gateway.cli.main", "transform", "--url", url]
    words += ["--input", str(source), "--output", str(target), "--content-type", "text/csv"]
    return [*words, *more]


def _records(args: argparse.Namespace, folder: Path, url: str) -> None:
    """Measure records a second, with a line in each request."""
    source, number = folder / "records.csv", args.records
    source.write_bytes(_lines(number))
    given = ("--split", "Line", "--strategy", "SingleRecord", "--concurrency")
    outputs = {name: folder / name for name in ("ours", "one", "aiohttp", "aiohttp-1", "sdk")}
    here = [sys.executable, "-m", "benchmarks.transform_aiohttp", url, str(source)]
    sdk = [args.sdk_python, "benchmarks/transform_sdk.py", url, str(source), str(outputs["sdk"])]
    rows = [
        Row(f"partway transform, {args.concurrency} at a time",
            _transform(url, source, outputs["ours"], *given, str(args.concurrency))),
        Row(f"aiohttp, {args.concurrency} at a time",
            [*here, str(outputs["aiohttp"]), str(args.concurrency)]),
        Row("partway transform, one at a time",
            _transform(url, source, outputs["one"], *given, "1")),
        Row("aiohttp, one at a time", [*here, str(outputs["aiohttp-1"]), "1"]),
        Row("SageMaker's SDK, local mode", sdk if args.sdk_python else None),
    ]  # fmt: skip
    for _ in range(args.repeat):
        for row, place in zip(rows, ("ours", "aiohttp", "one", "aiohttp-1", "sdk"), strict=True):
            if row.words is None:
                continue
            written = outputs[place]
            if place in ("ours", "one"):
                written = written / "records.csv.out"
            written.unlink(missing_ok=True)
            said, cpu, _ = _run(row.words)
            last = said.splitlines()[-1].removesuffix(" records/s")
            row.rates.append(float(last.split()[-1].replace(",", "")))
            row.costs.append(cpu / number * 1e6)
            if not filecmp.cmp(source, written, shallow=False):
                raise SystemExit(f"{row.name}: the output is wrong")
    _show(rows)


def _show(rows: Sequence[Row]) -> None:
    ours, peer = rows[0], rows[1]
    print("| | records/s | × aiohttp | × SDK | CPU µs, start included |\n|---|---|---|---|---|")
    for row in rows:
        if not row.rates:
            print(f"| {row.name} | unmeasured | | | |")
            continue
        beside = _ratio(row.rates, (peer if row in (ours, peer) else rows[3]).rates)
        sdk = _ratio(row.rates, rows[4].rates) if rows[4].rates else ""
        rate, cost = statistics.median(row.rates), statistics.median(row.costs)
        print(f"| {row.name} | {rate:,.0f} | {beside} | {sdk} | {cost:.0f} |")


def _ratio(these: Sequence[float], those: Sequence[float]) -> str:
    """The median of the ratios within each round."""
    return f"{statistics.median(a / b for a, b in zip(these, those, strict=True)):.2f}"


def _memory(args: argparse.Namespace, folder: Path, url: str) -> None:
    """Measure the peak of resident memory, by the size of the file."""
    block = _lines(MIB // _LINE)
    print("\n| a file of | asked as | seconds | peak |\n|---|---|---|---|")
    ways = {
        "lines, bodies of 6 MB, 4 at a time": ("--split", "Line", "--concurrency", "4"),
        "one body in chunks": ("--max-payload-mb", "0"),
    }
    for megabytes in sorted({64, args.megabytes}):
        source = folder / "large.csv"
        with source.open("wb") as file:
            for _ in range(megabytes * MIB // len(block)):
                file.write(block)
        for name, given in ways.items():
            began = time.perf_counter()
            _, _, peak = _run(_transform(url, source, folder / "large", *given))
            seconds = time.perf_counter() - began
            output = folder / "large" / "large.csv.out"
            size = source.stat().st_size
            whole = (
                filecmp.cmp(source, output, shallow=False)
                if "6 MB" in name
                else (output.read_bytes() == b"%d" % size)
            )
            output.unlink()
            if not whole:
                raise SystemExit(f"{name}: the output is wrong")
            print(f"| {megabytes} MB | {name} | {seconds:.1f} | {peak / MIB:.0f} MB |")
        source.unlink()


def _splitting() -> None:
    """Measure how fast files are cut, and nothing else."""
    lines = _lines(200_000)
    payloads = lines.splitlines(keepends=True)
    recordio = b"".join(framed(each) for each in payloads)
    kinds: tuple[tuple[SplitType, bytes], ...] = (("Line", lines), ("RecordIO", recordio))
    strategies: tuple[BatchStrategy, ...] = ("MultiRecord", "SingleRecord")
    print("\n| cut alone | strategy | MB/s | records/s |\n|---|---|---|---|")
    for kind, data in kinds:
        for strategy in strategies:
            began = time.process_time()
            cutting = splitter(kind, 6 * MIB, strategy)
            found = 0
            for at in range(0, len(data), MIB):
                found += sum(each.records for each in cutting.feed(data[at : at + MIB]))
            found += sum(each.records for each in cutting.finish())
            seconds = time.process_time() - began
            assert found == len(payloads)
            rate = len(data) / MIB / seconds
            print(f"| {kind} | {strategy} | {rate:,.0f} | {found / seconds:,.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=2048, help="of the largest file")
    parser.add_argument("--sdk-python", default=os.environ.get("SAGEMAKER_PYTHON", ""))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _container() as url:
        _records(args, Path(folder), url)
        _memory(args, Path(folder), url)
    _splitting()


if __name__ == "__main__":
    main()
