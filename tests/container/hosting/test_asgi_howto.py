"""The how-to's samples: the document's, changed by what the page shows and by nothing else."""

from __future__ import annotations

import difflib
import re

import pytest
from starlette.websockets import WebSocket

from partway.container.hosting.asgi_messages import Message
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "how-to" / "host-an-app.md").read_text("utf-8")
SAMPLES = ROOT / "docs" / "examples" / "hosting"
ORIGINALS = ROOT / "tests" / "container" / "hosting" / "originals"

DIFFS = dict(
    re.findall(
        r"^```diff\n(--- the page\n\+\+\+ docs/examples/hosting/(\w+)\.py\n.*?)^```$",
        PAGE,
        re.MULTILINE | re.DOTALL,
    )
)
SHOWN = {name: diff for diff, name in DIFFS.items()}


def test_each_sample_is_shown() -> None:
    names = {path.stem for path in SAMPLES.glob("*.py")}
    assert set(SHOWN) == names == {path.name.split(".")[0] for path in ORIGINALS.iterdir()}


def applied(diff: str, original: str) -> str:
    """The original with a diff's hunks applied; each has to find its lines where it says."""
    lines = original.splitlines(keepends=True)
    done: list[str] = []
    taken = 0
    for hunk in re.split(r"^@@ -", diff, flags=re.MULTILINE)[1:]:
        head, *changes = hunk.splitlines(keepends=True)
        start = int(re.split(r"[, ]", head)[0]) - 1
        done += lines[taken:start]
        taken = start
        for change in changes:
            mark, text = change[0], change[1:]
            if mark != "+":
                assert lines[taken] == text
                taken += 1
            if mark != "-":
                done.append(text)
    return "".join(done + lines[taken:])


@pytest.mark.parametrize("name", SHOWN)
def test_a_diff_makes_the_sample_of_the_documents(name: str) -> None:
    original = (ORIGINALS / f"{name}.py.txt").read_text("utf-8")
    sample = (SAMPLES / f"{name}.py").read_text("utf-8")
    assert applied(SHOWN[name], original) == sample


def test_the_check_of_diffs_sees() -> None:
    before, after = "a\nb\nc\nd\n", "a\nB\nc\nd\ne\n"
    diff = "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), n=1))
    assert applied(diff, before) == after
    with pytest.raises(AssertionError):
        applied(diff, before.replace("b", "x"))


@pytest.mark.parametrize("kind", ["websocket.ping", "websocket.pong", "websocket.close"])
async def test_what_the_sample_waits_for_never_comes(kind: str) -> None:
    """Starlette, which stands between uvicorn and the sample, lets no such message pass."""
    messages: list[Message] = [{"type": "websocket.connect"}, {"type": kind}]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None: ...

    websocket = WebSocket({"type": "websocket"}, receive, send)
    await websocket.accept()
    with pytest.raises(RuntimeError, match=kind):
        await websocket.receive()
