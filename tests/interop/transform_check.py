"""Transform jobs of boto3, the AWS CLI and the SageMaker SDK, against ``partway serve``.

Run by ``make interop-transform CLIENTS_PYTHON=… SAGEMAKER_PYTHON=…``. The programs are those of
docs/how-to/transform-jobs.md, as they are printed; S3 is a server of the tests'.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from partway.protocol.formats.faults import MediaFault
from partway.protocol.limits import MIB
from partway.protocol.records import splitter
from tests.gateway.object_server import serving_objects
from tests.interop.aws_sdk import ServedGateway
from tests.interop.served_api import PRINCIPALS, SHOWN, blocks, ended, interpreter, surroundings

PAGE = "how-to/transform-jobs.md"
BATCHES = Path(__file__).with_name("sagemaker_batches.py")

#: The CLI's waiter looks each minute, the SDK each half of one; importing it takes half a minute.
pytestmark = pytest.mark.timeout(300)

CSV = b"id1,1.5,2\nid2,3,4\n"
JOINED = "id1,2\nid2,4\n"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture
async def gateway(anyio_backend: str, tmp_path: Path) -> AsyncIterator[ServedGateway]:
    """A gateway of the page's settings, which asks for signatures."""
    (tmp_path / "questions").mkdir()
    (tmp_path / "answers").mkdir(mode=0o700)
    (tmp_path / "questions" / "monday.csv").write_bytes(CSV)
    settings = f'[api]\nlocal_roots = ["{tmp_path}/questions"]\n'
    settings += f'local_results = ["{tmp_path}/answers"]\n'
    async with ServedGateway.start(tmp_path, settings, PRINCIPALS) as gateway:
        yield gateway


async def test_boto3_and_its_waiter(gateway: ServedGateway, tmp_path: Path) -> None:
    python = interpreter("CLIENTS_PYTHON", "boto3", "interop-transform")
    program, _ = blocks(PAGE, "python")
    variables = surroundings(tmp_path, "http://127.0.0.1:9", python)
    program = program.replace(SHOWN, gateway.http)
    told = await ended(python, "-c", program, environment=variables, directory=tmp_path)
    assert (told.status, told.output) == (0, JOINED), told.errors + gateway.log.read_text("utf-8")


async def test_the_cli(gateway: ServedGateway, tmp_path: Path) -> None:
    python = interpreter("CLIENTS_PYTHON", "awscli", "interop-transform")
    _, script = blocks(PAGE, "sh")
    variables = surroundings(tmp_path, gateway.http, python)
    told = await ended("sh", "-ec", script, environment=variables, directory=tmp_path)
    assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
    assert told.output.endswith("Completed\n")
    assert (tmp_path / "answers" / "monday.csv.out").read_bytes() == CSV
    again = script.split("aws sagemaker wait")[0].split("\n", 1)[1]
    told = await ended("sh", "-ec", again, environment=variables, directory=tmp_path)
    assert "An error occurred (ResourceInUse) when calling the CreateTransformJob" in told.errors
    missing = "aws sagemaker describe-transform-job --transform-job-name none"
    told = await ended("sh", "-ec", missing, environment=variables, directory=tmp_path)
    assert "An error occurred (ValidationException) when calling the Describe" in told.errors


async def test_the_sdk_and_the_jobs_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = interpreter("SAGEMAKER_PYTHON", "sagemaker 2", "interop-transform")
    _, program = blocks(PAGE, "python")
    async with (
        serving_objects(monkeypatch) as s3,
        ServedGateway.start(tmp_path, "", PRINCIPALS) as gateway,
    ):
        s3.buckets["transformed"] = {"questions/monday.csv": CSV}
        s3.key_id = ""  # the gateway's keys are not the SDK's
        variables = surroundings(tmp_path, gateway.http, python) | {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{s3.port}"
        }
        program = program.replace(SHOWN, gateway.http)
        told = await ended(python, "-c", program, environment=variables, directory=tmp_path)
        assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
        assert told.output.endswith(JOINED), told.output
        assert "listening on http://127.0.0.1:" in told.output  # the instance's own words
        assert s3.buckets["transformed"]["answers/monday.csv.out"] == JOINED.encode()


# --- Beside the SDK's local mode ------------------------------------------------------------------


def record_io(*records: bytes) -> bytes:
    """Records in frames, as clause 1.3 of the formats has them."""
    framed = b""
    for each in records:
        framed += struct.pack("<II", 0xCED7230A, len(each)) + each + bytes(-len(each) % 4)
    return framed


#: By name; of some the SDK's local mode makes something else.
FILES = {
    "lines": b"".join(b"%0999d\n" % number for number in range(3000)),
    "short-lines": b"a\nb\n\nc",
    "record-io": record_io(b"abc", b"defgh", b""),
    "json": b'{"a":\n [1, 2]}\n',
    "binary": bytes(range(256)) * 3,
    "utf-8": "käse\nbrot\n".encode(),
    "crlf": b"a\r\nb\r\n",
    "lone-cr": b"a\rb\n",
    "empty": b"",
    "large-record": b"a\n" + b"x" * (MIB + 1) + b"\nb\n",
    "latin-1": b"k\xe4se\n",
    "wide": ("é" * 499 + "\n").encode() * 2000,
}

#: Where both differ, by file and split, and what the SDK's does: the page's table.
OTHERWISE = {
    ("crlf", "Line"),
    ("lone-cr", "Line"),
    ("empty", "None"),
    ("empty", "Line"),
    ("large-record", "Line"),
    ("latin-1", "None"),
    ("latin-1", "Line"),
    ("binary", "Line"),
    ("wide", "None"),
    ("wide", "Line"),
    ("binary", "None"),
    ("record-io", "None"),
    ("record-io", "Line"),
}


def ours(data: bytes, split: str, strategy: str) -> list[bytes] | None:
    """The requests of a file; None if it fails."""
    try:
        # mypy takes names of a loop for str; they are of the Literal that is asked for.
        cutting = splitter(split, MIB, strategy)  # type: ignore[arg-type]
        return [each.data for each in (*cutting.feed(data), *cutting.finish())]
    except MediaFault:
        return None


async def test_requests_beside_those_of_the_sdks_local_mode(tmp_path: Path) -> None:
    python = interpreter("SAGEMAKER_PYTHON", "sagemaker 2", "interop-transform")
    (tmp_path / "files").mkdir()
    for name, data in FILES.items():
        (tmp_path / "files" / name).write_bytes(data)
    variables = surroundings(tmp_path, "http://127.0.0.1:9", python)
    words = [python, str(BATCHES), str(tmp_path / "files")]
    told = await ended(*words, environment=variables, directory=tmp_path)
    assert told.status == 0, told.errors
    differ = set()
    for line in re.findall(r"^\{.*\}$", told.output, re.MULTILINE):
        said = json.loads(line)
        name, split, strategy = said["file"], said["split"], said["strategy"]
        if split == "RecordIO" and (name != "record-io" or strategy == "MultiRecord"):
            continue
        theirs = said.get("requests")
        if theirs is not None:
            theirs = [base64.b64decode(each) for each in theirs]
        if theirs != ours(FILES[name], split, strategy):
            differ.add((name, split))
    assert differ == OTHERWISE
