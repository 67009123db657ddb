"""partway transform: the command as a process, with containers that it starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import get_args

import psutil
import pytest

from partway.gateway.batch.options import CompressionType, JoinSource
from partway.gateway.cli.main import main
from partway.gateway.cli.transform import add_to
from partway.protocol.records import AssembleWith, BatchStrategy, SplitType
from tests.conftest import ROOT
from tests.gateway.cli.invoking import Ended, environment
from tests.processes import running

pytestmark = pytest.mark.timeout(300)

#: Nothing here takes this long, in seconds: containers are started.
PATIENCE = 150

CONTAINER = f"{sys.executable} {ROOT}/tests/gateway/batch/batch_container.py"


def begun(*arguments, url="http://127.0.0.1:9"):
    words = [sys.executable, "-m", "partway.gateway.cli.main", "transform", *arguments]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(url), cwd=ROOT
    )


def ended(process):
    output, errors = process.communicate(timeout=PATIENCE)
    assert b"Traceback" not in errors, errors.decode()
    return Ended(process.returncode, output, errors.decode())


def transformed(*arguments, **more):
    return ended(begun(*arguments, **more))


def flags(folder, *more):
    return (
        *("--input", f"{folder}/in", "--output", f"{folder}/out", "--content-type", "text/csv"),
        *("--split", "Line", *more),
    )


def files(folder, **content):
    (folder / "in").mkdir(exist_ok=True)
    for name, text in content.items():
        (folder / "in" / name).write_bytes(text)


def outputs(folder):
    return {
        path.relative_to(folder / "out").as_posix(): path.read_bytes()
        for path in (folder / "out").rglob("*")
        if path.is_file()
    }


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- What it does ---------------------------------------------------------------------------------


def test_files_that_fail_and_those_that_do_not(tmp_path):
    files(tmp_path, good=b"a\r\nb", refused=b"1\n400\n3", never=b"503\n", again=b"twice-1\nx\n")
    done = transformed(
        *("--command", CONTAINER),
        *flags(tmp_path, "--assemble", "Line", "--concurrency", "3"),
        *("--retries", "2"),
    )
    assert done.status == 1
    assert outputs(tmp_path) == {"good.out": b"a\r\nb\n", "again.out": b"twice-1\nx\n"}
    lines, said = done.errors.splitlines(), "the model's own words"
    assert lines[:2] == [
        "starting 1 container",
        "SingleRecord, bodies of 1 MB at most, 3 at a time",
    ]
    assert lines[-4:] == [
        "2 of 4 files failed:",
        f"  never: record 0 (line 1): the container answered 503: {said} (the last of 3 tries)",
        f"  refused: record 1 (line 2): the container answered 400: {said}",
        "run the same command again for these files",
    ]
    assert done.output.startswith(b"4 files: 2 done, 2 failed; 4 records in ")
    files(tmp_path, refused=b"1\n2\n3", never=b"5\n")
    done = transformed("--command", CONTAINER, *flags(tmp_path))
    assert (done.status, done.output[:29]) == (0, b"4 files: 2 done, 2 skipped; 4")
    assert outputs(tmp_path)["refused.out"] == b"1\n2\n3"
    done = transformed("--command", "no-such-program", *flags(tmp_path))
    assert (done.status, done.errors) == (0, ""), "nothing is started where nothing is missing"


def test_a_container_that_dies_is_started_again(tmp_path):
    files(tmp_path, a=b"1\n", b=b"die\n", c=b"3\n")
    done = transformed("--command", CONTAINER, *flags(tmp_path, "--retries", "1"))
    assert done.status == 1
    assert outputs(tmp_path) == {"a.out": b"1\n", "c.out": b"3\n"}
    assert "b: record 0 (line 1): the container gave no whole answer: " in done.errors
    assert "the container ended with status 3" in done.errors


def test_what_containers_are_told_and_several_of_them(tmp_path):
    files(tmp_path, e=b"environment", f=b"1\n2\n3\n" * 20)
    done = transformed(
        *("--command", CONTAINER, "--instances", "2"),
        *flags(tmp_path, "--concurrency", "2", "--max-payload-mb", "2"),
        *("--strategy", "SingleRecord"),
    )
    assert (done.status, done.errors.splitlines()[:2]) == (
        0, ["starting 2 containers", "SingleRecord, bodies of 2 MB at most, 4 at a time"]
    )  # fmt: skip
    told = json.loads(outputs(tmp_path)["e.out"])
    del told["SAGEMAKER_BIND_TO_PORT"]
    assert told == {
        "SAGEMAKER_BATCH": "true",
        "SAGEMAKER_BATCH_STRATEGY": "SINGLE_RECORD",
        "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": "2",
        "SAGEMAKER_MAX_PAYLOAD_IN_MB": "2",
    }


def test_filters_and_joins(tmp_path):
    files(tmp_path, a=b'{"id": 1, "x": [2]}\n{"id": 3, "x": [4]}\n')
    done = transformed(
        *("--image", "echo", "--input", f"{tmp_path}/in", "--output", f"{tmp_path}/out"),
        *("--content-type", "application/jsonlines", "--split", "Line", "--assemble", "Line"),
        *(
            "--input-filter",
            "$.x",
            "--join",
            "Input",
            "--output-filter",
            "$['id','SageMakerOutput']",
        ),
    )
    assert done.status == 0, done.errors
    found = [json.loads(line) for line in outputs(tmp_path)["a.out"].splitlines()]
    assert found == [{"id": 1, "SageMakerOutput": [2]}, {"id": 3, "SageMakerOutput": [4]}]


def test_json_is_not_joined_as_if_it_were_csv(tmp_path):
    """By a container of the job's own, and by one behind a gateway."""
    files(tmp_path, a=b"json\n", b=b"1\n")
    said = (
        "a: record 0 (line 1): the container's answer has the Content-Type 'application/json'; it "
        "must be text/csv, as the job's ContentType says"
    )
    joining = (*flags(tmp_path), "--join", "Input")
    done = transformed("--command", CONTAINER, *joining)
    assert done.status == 1
    assert said in done.errors
    assert outputs(tmp_path) == {"b.out": b"1,1\n"}
    arguments = ("serve", "--port", "0", "--endpoint", f"own={CONTAINER}")
    with running(*("partway.gateway.cli.main", *arguments, "--data-dir", f"{tmp_path}/d")) as url:
        done = transformed("--endpoint", "own", *joining, url=url)
        assert done.status == 1
        assert said in done.errors


def test_a_container_that_runs_and_an_endpoint_of_a_gateway(tmp_path, container):
    files(tmp_path, a=b"1\n2\n", empty=b"")
    done = transformed("--url", container, *flags(tmp_path))
    assert done.status == 0, done.errors
    assert outputs(tmp_path) == {"a.out": b"1\n2\n", "empty.out": b""}
    arguments = ("serve", "--port", "0", "--endpoint", f"echo={container}")
    with running(*("partway.gateway.cli.main", *arguments, "--data-dir", f"{tmp_path}/d")) as url:
        where = ("--input", f"{tmp_path}/in", "--output", f"{tmp_path}/other")
        given = (*where, "--content-type", "text/csv")
        done = transformed("--endpoint", "echo", *given, url=url)
        assert done.status == 0, done.errors
        assert (tmp_path / "other" / "a.out").read_bytes() == b"1\n2\n"
        (tmp_path / "other" / "a.out").unlink()
        done = transformed("--endpoint", "none", *given, url=url)
        assert done.status == 1
        assert "a: the gateway answered 400: Endpoint none of account 0" in done.errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_what_is_whole(tmp_path, number):
    gate = tmp_path / "gate"
    files(tmp_path, a=b"1\n", b=b"2\nwait-%b\n" % os.fsencode(gate), c=b"3\n")
    process = begun("--command", CONTAINER, *flags(tmp_path))
    try:
        until(lambda: (tmp_path / "out" / ".b.out.part").exists())
        (child,) = [
            each
            for each in psutil.Process(process.pid).children(recursive=True)
            if "batch_container.py" in " ".join(each.cmdline())
        ]
        process.send_signal(number)
        done = ended(process)
    finally:
        process.kill()
    assert done.status == 130
    assert done.errors.splitlines()[-1] == (
        "partway transform: interrupted: each written file is complete; run the same command "
        "again for the rest"
    )
    assert outputs(tmp_path) == {"a.out": b"1\n"}
    until(lambda: not child.is_running())


def test_after_a_kill_the_rest_is_done(tmp_path):
    gate = tmp_path / "gate"
    files(tmp_path, a=b"1\n", b=b"2\nwait-%b\n" % os.fsencode(gate), c=b"3\n")
    process = begun("--command", CONTAINER, *flags(tmp_path))
    until(lambda: (tmp_path / "out" / ".b.out.part").exists())
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert set(outputs(tmp_path)) == {"a.out", ".b.out.part"}
    gate.touch()
    done = transformed("--command", CONTAINER, *flags(tmp_path))
    assert (done.status, done.output[:27]) == (0, b"3 files: 2 done, 1 skipped;")
    assert outputs(tmp_path) == {
        "a.out": b"1\n", "b.out": (tmp_path / "in" / "b").read_bytes(), "c.out": b"3\n"
    }  # fmt: skip


# --- What it is asked wrongly ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        (("--url", "x", "--image", "y"), 2, "not allowed with argument"),
        ((), 2, "one of the arguments --endpoint --url --image --command is required"),
        (("--image", "echo", "--split", "Lines"), 2, "invalid choice: 'Lines'"),
        (("--image", "echo", "--max-payload-mb", "101"), 2,
         "partway transform: --max-payload-mb (MaxPayloadInMB: 101 was given; it must be a whole"),
        (("--image", "echo", "--concurrency", "20", "--max-payload-mb", "6"), 2,
         "partway transform: --concurrency (MaxConcurrentTransforms: 20 was given; multiplied by"),
        (("--image", "echo", "--timeout", "0"), 2, "--timeout (InvocationsTimeoutInSeconds: 0 was"),
        (("--image", "echo", "--retries", "4"), 2, "--retries (InvocationsMaxRetries: 4 was given"),
        (("--image", "echo", "--input-filter", "x"), 2, "--input-filter (InputFilter: "),
        (("--image", "echo", "--instances", "0"), 2, "--instances: 0 was given; it must be from 1"),
        (("--url", "http://a:1", "--instances", "2"), 2, "--instances works only with --image a"),
        (("--endpoint", "e", "--max-payload-mb", "0"), 2, "--max-payload-mb: 0 was given; with"),
        (("--url", "ftp://a"), 2, "--url: 'ftp://a' is not a container's URL: it must begin with"),
        (("--command", "'"), 2, "--command: No closing quotation"),
        (("--image", "a b"), 2, "--image: 'a b' was given; it must be an image's name"),
        (("--command", "no-such-program"), 1, "no instance is in service, for the reason above"),
        (("--url", "http://127.0.0.1:9"), 1,
         "transform: --url http://127.0.0.1:9: /execution-parameters: no connection with the cont"),
        (("--endpoint", "e"), 1, "no connection with the gateway: Connection refused; --gateway"),
    ],
)  # fmt: skip
def test_what_it_does_not_do(tmp_path, monkeypatch, capfd, more, status, said):
    monkeypatch.setenv("PARTWAY_URL", "http://127.0.0.1:9")
    files(tmp_path, a=b"1\n")
    try:
        found = main(["transform", *flags(tmp_path), *more])
    except SystemExit as exit:  # argparse's
        found = exit.code
    assert (found, said in (errors := capfd.readouterr().err)) == (status, True), errors
    assert not (tmp_path / "out").exists()


def test_why_no_container_starts_is_said_once(tmp_path, monkeypatch, capfd):
    """However often it is tried, and whoever of the fleet tells of it."""
    for wait in ("RESTART_SHORTEST", "RESTART_LONGEST"):
        monkeypatch.setattr(f"partway.gateway.fleet.instance_group.{wait}", 0.01)
    files(tmp_path, a=b"1\n")
    program = f"{sys.executable} -S -c 'print(1 // 0)'"
    assert main(["transform", "--command", program, *flags(tmp_path)]) == 1
    said = capfd.readouterr().err
    assert said.count("ZeroDivisionError") == said.count("an instance has failed: ") == 1, said
    assert said.endswith("transform: no instance is in service, for the reason above\n")


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("nothing", "out", "nothing: there must be a file, or a folder with files"),
        ("in", "in", "the next run would read its output as input; it must be another folder than"),
    ],
)
def test_where_nothing_is_or_may_be(tmp_path, monkeypatch, capfd, source, target, said):
    monkeypatch.chdir(tmp_path)
    files(tmp_path, a=b"1\n")
    given = ["--input", source, "--output", target, "--content-type", "text/csv"]
    assert main(["transform", "--image", "echo", *given]) == 1
    assert said in capfd.readouterr().err


def test_the_choices_are_the_api_s():
    import argparse

    parsers = argparse.ArgumentParser().add_subparsers()
    add_to(parsers)
    choices = {action.dest: action.choices for action in parsers.choices["transform"]._actions}
    assert choices["split"] == get_args(SplitType)
    assert choices["assemble"] == get_args(AssembleWith)
    assert choices["strategy"] == get_args(BatchStrategy)
    assert choices["compression"] == get_args(CompressionType)
    assert choices["join"] == get_args(JoinSource)
