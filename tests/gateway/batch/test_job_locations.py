"""Where jobs of the API read and write: below their folders, by no link, each file with leave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from partway.gateway.apis.control.limits import TRANSFORM_QUOTA
from partway.gateway.batch.finished_files import FinishedFiles
from partway.gateway.batch.input_output import InputPlace, OutputPlace
from partway.gateway.batch.job_locations import CallersPlaces
from partway.gateway.batch.output_spool import outputs_quota
from partway.gateway.batch.outputs import UnfinishedOutputs
from partway.gateway.storage.limits import READ_BYTES
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import LoopClock
from tests.gateway.object_server import KEY_ID, serving_objects


def places(folder: Path) -> CallersPlaces:
    """Those of a gateway whose callers may read below ``in`` and write below ``out``."""
    for each in ("in", "out"):
        (folder / each).mkdir(mode=0o700, exist_ok=True)
    roots = LocalRoots((folder / "in",))
    results = LocalRoots((folder / "out",), setting="local_results")
    return CallersPlaces(LoopClock(), lambda: roots, results, outputs_quota(TRANSFORM_QUOTA))


def everything(*_: str) -> bool:
    return True


async def read(inputs: InputPlace) -> dict[str, bytes]:
    found = {}
    for file in await inputs.files():
        async with aclosing(inputs.pieces(file)) as pieces:
            found[file.name] = b"".join([each async for each in pieces])
        assert len(found[file.name]) == file.size
    return found


async def put(outputs: OutputPlace, name: str, *pieces: bytes) -> None:
    async with outputs.output(name) as output:
        await output.write(b"what is dropped")
        await output.restart()
        for each in pieces:
            await output.write(each)
        await output.finish()


async def test_the_files_of_a_folder(tmp_path: Path) -> None:
    callers = places(tmp_path)
    (tmp_path / "in" / "deep").mkdir()
    large = os.urandom(2 * READ_BYTES + 1)
    for name, content in {"b.csv": large, "deep/a.csv": b"a", ".hidden": b"", "empty": b""}.items():
        (tmp_path / "in" / name).write_bytes(content)
    wanted = {"b.csv": large, "deep/a.csv": b"a", "empty": b""}
    for location in (f"{tmp_path}/in", f"{tmp_path}/in/", f"file://{tmp_path}/in"):
        assert await read(callers.inputs(location, everything)) == wanted
    assert list(await read(callers.inputs(f"{tmp_path}/in/b", everything))) == ["b.csv"]
    assert list(await read(callers.inputs(f"{tmp_path}/in/deep/a.csv", everything))) == ["a.csv"]


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("{0}/in/none", "there must be a file"),
        ("{0}/in/none/", "No such file or directory"),
        ("{0}/out", "below one of the local_roots"),
        ("{0}/in/../out", "no part of it empty, . or .."),
        ("{0}/in/%61", "there must be a file"),
    ],
)
async def test_what_cannot_be_read(tmp_path: Path, location: str, says: str) -> None:
    callers = places(tmp_path)
    (tmp_path / "out" / "a").write_bytes(b"a")
    with pytest.raises(StorageFailed) as failed:
        await callers.inputs(location.format(tmp_path), everything).files()
    assert says in str(failed.value)


@pytest.mark.parametrize("of_folder", [False, True])
async def test_what_a_link_leads_to_is_not_read(tmp_path: Path, of_folder: bool) -> None:
    callers = places(tmp_path)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.csv").write_bytes(b"secret")
    link = tmp_path / "in" / "link"
    link.symlink_to(tmp_path / "secret" if of_folder else tmp_path / "secret" / "a.csv")
    with pytest.raises(StorageFailed):
        await callers.inputs(f"{tmp_path}/in/link", everything).files()
    if of_folder:  # a folder's are not even looked for
        with pytest.raises(StorageFailed, match="there must be a file"):
            await callers.inputs(f"{tmp_path}/in", everything).files()


async def test_another_file_in_its_place_is_not_read(tmp_path: Path) -> None:
    callers = places(tmp_path)
    file = tmp_path / "in" / "a.csv"
    file.write_bytes(b"a")
    (tmp_path / "secret").write_bytes(b"s")
    inputs = callers.inputs(f"{tmp_path}/in", everything)
    (found,) = await inputs.files()
    for replace in (lambda: file.symlink_to(tmp_path / "secret"), lambda: file.write_bytes(b"b")):
        file.unlink()
        replace()
        with pytest.raises(StorageFailed):
            [each async for each in inputs.pieces(found)]


async def test_leave_is_asked_for_each_file(tmp_path: Path) -> None:
    callers = places(tmp_path)
    asked = []
    for each in ("a", "b"):
        (tmp_path / "in" / each).write_bytes(b"a")

    def may(action: str, resource: str) -> bool:
        asked.append((action, resource))
        return not resource.endswith("/b")

    with pytest.raises(StorageFailed, match="no permission for s3:GetObject on arn:partway:files"):
        await callers.inputs(f"{tmp_path}/in", may).files()
    assert asked == [
        ("s3:GetObject", f"arn:partway:files:::{tmp_path}/in/{each}") for each in ("a", "b")
    ]


async def test_leave_for_many_files_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("inputs", "manifests"):
        monkeypatch.setattr(f"partway.gateway.batch.{module}.FILES_PER_TURN", 2)
    names = [f"{number}.csv" for number in range(9)]
    (tmp_path / "in").mkdir()
    for each in names:
        (tmp_path / "in" / each).write_bytes(b"")
    entries = "".join(f', "{each}"' for each in names)
    (tmp_path / "in" / "manifest").write_text(f'[{{"prefix": "{tmp_path}/in/"}}{entries}]')
    asked_in_turns: list[int] = [0]

    def may(_action: str, _resource: str) -> bool:
        asked_in_turns[-1] += 1
        return True

    async def look(inputs: InputPlace) -> list[int]:
        asked_in_turns[:] = [0]
        looking = asyncio.create_task(inputs.files())
        while not looking.done():
            await asyncio.sleep(0)
            if asked_in_turns[-1]:
                asked_in_turns.append(0)
        assert len(await looking) >= len(names)
        return asked_in_turns

    callers = places(tmp_path)
    assert max(await look(callers.inputs(f"{tmp_path}/in", may))) == 2
    there = callers.inputs(f"{tmp_path}/in/manifest", may, manifest=True)
    assert max(await look(there)) == 2


async def test_an_output_appears_whole(tmp_path: Path) -> None:
    outputs = places(tmp_path).outputs(f"{tmp_path}/out/new/", "text/csv")
    await put(outputs, "deep/a.csv", b"one", b"two")
    file = tmp_path / "out" / "new" / "deep" / "a.csv.out"
    assert file.read_bytes() == b"onetwo"
    assert await outputs.present(["deep/a.csv", "b.csv"]) == {"deep/a.csv"}
    await put(outputs, "deep/a.csv", b"three")
    assert file.read_bytes() == b"three"
    async with outputs.output("b.csv") as output:
        await output.write(b"half")
    assert [each.name for each in file.parents[1].rglob("*")] == ["deep", "a.csv.out"]


async def test_an_output_is_not_written_by_a_link(tmp_path: Path) -> None:
    callers = places(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageFailed, match="below one of the local_results"):
        await put(callers.outputs(f"{tmp_path}/out/link", ""), "a", b"a")
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_what_is_finished_is_noted_and_there(tmp_path: Path) -> None:
    finished = FinishedFiles(tmp_path / "finished")
    outputs = UnfinishedOutputs(places(tmp_path).outputs(f"{tmp_path}/out", ""), finished)
    await put(outputs, "a.csv", b"a")
    assert await outputs.present(["a.csv", "b.csv"]) == {"a.csv"}
    async with outputs.output("b.csv") as output:
        await output.write(b"half")
    assert finished.names == {"a.csv"}


async def test_files_at_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    callers, asked = places(tmp_path), []

    def may(action: str, resource: str) -> bool:
        asked.append((action, resource))
        return True

    async with serving_objects(monkeypatch) as s3:
        s3.key_id = KEY_ID
        s3.buckets["bucket"] = {"in/a.csv": b"a", "in/deep/b.csv": b"b", "other": b"o"}
        assert await read(callers.inputs("s3://bucket/in/", may)) == {
            "a.csv": b"a",
            "deep/b.csv": b"b",
        }
        await put(callers.outputs("s3://bucket/out", "text/csv"), "deep/b.csv", b"one", b"two")
        assert s3.buckets["bucket"]["out/deep/b.csv.out"] == b"onetwo"
    assert asked == [
        ("s3:GetObject", "arn:aws:s3:::bucket/in/a.csv"),
        ("s3:GetObject", "arn:aws:s3:::bucket/in/deep/b.csv"),
    ]


MANIFEST = '[{"prefix": "%s"}, "a.csv", "deep/b.csv"]'


async def test_the_files_of_a_manifest(tmp_path: Path) -> None:
    callers, asked = places(tmp_path), []
    (tmp_path / "in" / "deep").mkdir()
    for name in ("a.csv", "deep/b.csv", "c.csv"):
        (tmp_path / "in" / name).write_bytes(name.encode())
    (tmp_path / "in" / "those.json").write_text(MANIFEST % f"{tmp_path}/in/")

    def may(_: str, resource: str) -> bool:
        asked.append(resource.rpartition("/in/")[2])
        return True

    inputs = callers.inputs(f"{tmp_path}/in/those.json", may, manifest=True)
    assert await read(inputs) == {"a.csv": b"a.csv", "deep/b.csv": b"deep/b.csv"}
    assert asked == ["those.json", "a.csv", "deep/b.csv"]


@pytest.mark.parametrize(
    ("prefix", "says"),
    [
        ("{0}/", "below one of the local_roots"),
        ("{0}/in/../", "no part of it empty, . or .."),
        ("https://bucket/", "must name s3://BUCKET/PREFIX, or a path"),
        ("s3://other/", "no permission for s3:GetObject on arn:aws:s3:::other/a.csv"),
    ],
)
async def test_a_manifest_names_nothing_else(tmp_path: Path, prefix: str, says: str) -> None:
    callers = places(tmp_path)
    (tmp_path / "a.csv").write_bytes(b"secret")
    (tmp_path / "in" / "those.json").write_text(MANIFEST % prefix.format(tmp_path))
    inputs = callers.inputs(
        f"{tmp_path}/in/those.json", lambda _, resource: ":other/" not in resource, manifest=True
    )
    with pytest.raises(StorageFailed) as failed:
        await inputs.files()
    assert says in str(failed.value)


async def test_a_manifest_at_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    callers = places(tmp_path)
    async with serving_objects(monkeypatch) as s3:
        s3.key_id = KEY_ID
        s3.buckets["bucket"] = {"those": (MANIFEST % "s3://data/in/").encode()}
        s3.buckets["data"] = {"in/a.csv": b"a", "in/deep/b.csv": b"b"}
        inputs = callers.inputs("s3://bucket/those", everything, manifest=True)
        assert await read(inputs) == {"a.csv": b"a", "deep/b.csv": b"b"}


async def test_a_manifest_names_no_object_by_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``s3://bucket//a`` is not the object ``a``: leave for the one is no leave for the other."""
    async with serving_objects(monkeypatch) as server:
        server.key_id = KEY_ID
        server.buckets["bucket"] = {"m": b'[{"prefix": "s3://bucket//"}, "a"]', "a": b"a"}
        inputs = places(tmp_path).inputs("s3://bucket/m", everything, manifest=True)
        with pytest.raises(StorageFailed, match="no part of a key may be empty"):
            await inputs.files()


@pytest.mark.parametrize("of", [CallersPlaces.inputs, CallersPlaces.outputs])
async def test_what_names_no_bucket(tmp_path: Path, of: Callable[..., object]) -> None:
    with pytest.raises(StorageFailed, match="is not a bucket's name"):
        of(places(tmp_path), "s3://B", everything)
