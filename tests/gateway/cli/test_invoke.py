"""partway invoke, as a process, through a gateway to an echo and to a container with a script."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time
import wave
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from partway.gateway.cli.invoke import invoke as invoke_command
from partway.gateway.cli.main import _parser
from tests.conftest import ROOT
from tests.frame_factory import BINARY, close, frame
from tests.gateway.cli.invoking import PATIENCE, environment, invoked, words
from tests.processes import running
from tests.wire.peers import MSGPACK, RawContainer, soon, switching

#: Time, direction, type, completion, size, beginning.
FRAME = re.compile(
    r" {0,4}(?P<time>\d+\.\d{4}) s  (?P<way>[↑↓]) (?P<type>UTF8  |BINARY)  "
    r"(?P<state>PARTIAL |COMPLETE)  (?P<size>[ \d]{8}) B  (?P<shown>.*)"
)


@pytest.fixture(scope="module")
def scripted() -> Iterator[str]:
    """A container whose path says what it does."""

    def converse(connection: ServerConnection) -> None:
        assert connection.request is not None
        path, _, query = connection.request.path.partition("?")
        match path:
            case "/says":
                connection.send(f"{path}?{query}")
                connection.close(1000)
            case "/hears-75":
                for _ in range(75):
                    connection.recv(PATIENCE)
                connection.send("heard")
                with suppress(ConnectionClosed):
                    connection.recv(PATIENCE)  # the client says when it is over
            case "/thinks":
                connection.recv(PATIENCE)
                with suppress(ConnectionClosed, TimeoutError):
                    connection.recv(0.5)  # a Close, which the library answers by itself
                with suppress(ConnectionClosed):
                    connection.send("thought")
                    connection.recv(PATIENCE)
            case "/steers":
                connection.send("\x1b[2Jred\x1b]0;title\x07")
                connection.close(1000)
            case "/speaks-binary":
                connection.send(bytes(1234))
                connection.close(1000)
            case "/leaves":
                connection.recv(PATIENCE)
                connection.close(4000, "out of memory")
            case "/leaves-normally":
                connection.recv(PATIENCE)
                connection.close(1000)
            case _:
                connection.recv(PATIENCE)

    def refuse(connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/refuses":
            return Response(403, "Forbidden", Headers({"Content-Length": "7"}), b"not you")
        return None

    with serve(
        converse, "127.0.0.1", 0, process_request=refuse, compression=None, close_timeout=5
    ) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def gateway(scripted: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway with the endpoints ``echo``, ``scripted``, and ``ends``, which ends cleanly."""
    config = tmp_path_factory.mktemp("gateway") / "partway.toml"
    with running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0") as echo:
        config.write_text(
            f'[endpoints.echo]\nurl = "{echo}"\n'
            f'[endpoints.scripted]\nurl = "{scripted}"\ninput_end = "drain"\n'
            f'[endpoints.ends]\nurl = "{scripted}"\ninput_end = "drain"\nnormal_close = "end"\n'
            f'[endpoints.closes]\nurl = "{scripted}"\ninput_end = "close"\n'
        )
        with running(
            "partway.gateway.cli.main", "serve", "--port", "0", "--config", str(config)
        ) as url:
            yield url


@pytest.fixture
def command():
    return words


@pytest.fixture
def invoke(gateway: str):
    return partial(invoked, gateway)


@pytest.fixture
def start(gateway: str, command) -> Iterator[object]:
    """Starts the command with pipes; it is not waited for."""
    started = []

    def popen(*arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(gateway),
            cwd=ROOT,
        )
        started.append(process)
        return process

    yield popen
    for process in started:
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        process.wait()


def say(process: subprocess.Popen[bytes], text: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def hear(process: subprocess.Popen[bytes]) -> bytes:
    """The next line that the process writes."""
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([process.stdout], [], [], PATIENCE)[0], f"only {line!r} came"
        byte = os.read(process.stdout.fileno(), 1)
        assert byte, f"the end came after {line!r}"
        line += byte
    return line


def left(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for the end, standard input staying open: status, standard error."""
    status = process.wait(PATIENCE)
    assert process.stderr is not None
    return status, process.stderr.read().decode()


def frames(output: bytes) -> list[Mapping[str, str]]:
    found = []
    for line in output.decode().splitlines():
        match = FRAME.fullmatch(line)
        assert match, line
        found.append({key: value.strip() for key, value in match.groupdict().items()})
    return found


def brief(output: bytes, way: str) -> list[tuple[str, str, int, str]]:
    return [
        (shown["type"], shown["state"], int(shown["size"]), shown["shown"])
        for shown in frames(output)
        if shown["way"] == way
    ]


# --- Text ----------------------------------------------------------------------------------------


def test_each_text_is_a_message(invoke):
    ended = invoke("echo", "--text", "Grüße", "--text", "two")
    assert (ended.status, ended.output) == (0, "Grüße\ntwo\n".encode())
    assert re.fullmatch(r"2 parts back, time to first part \d+\.\d ms\n", ended.errors)


def test_partial_makes_one_message(invoke):
    ended = invoke("echo", "--text", "Hello ", "--text", "wor", "--text", "ld", "--partial")
    assert (ended.status, ended.output) == (0, b"Hello world\n")
    assert re.fullmatch(
        r"3 parts back, time to first part \d+\.\d ms, between parts \d+\.\d ms, "
        r"jitter \d+\.\d ms\n",
        ended.errors,
    )


def test_frames(invoke):
    ended = invoke("echo", "--text", "Hello ", "--text", "wörld", "--partial", "--frames")
    times = [float(shown["time"]) for shown in frames(ended.output)]
    assert times == sorted(times)
    assert ended.status == 0
    lines = re.sub(r"\d+\.\d{4} s", "#.#### s", ended.output.decode()).splitlines()
    assert sorted(lines) == [
        "   #.#### s  ↑ UTF8    COMPLETE         6 B  'wörld'",
        "   #.#### s  ↑ UTF8    PARTIAL          6 B  'Hello '",
        "   #.#### s  ↓ UTF8    COMPLETE         6 B  'wörld'",
        "   #.#### s  ↓ UTF8    PARTIAL          6 B  'Hello '",
    ]


def test_frames_show_the_beginning_of_a_long_part(invoke):
    ended = invoke("echo", "--text", "x" * 41, "--text", "y" * 40, "--text", "", "--frames")
    assert brief(ended.output, "↓") == [
        ("UTF8", "COMPLETE", 41, f"'{'x' * 40}' …"),
        ("UTF8", "COMPLETE", 40, f"'{'y' * 40}'"),
        ("UTF8", "COMPLETE", 0, "''"),
    ]


# --- Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65_536, 300_000])
def test_a_file_comes_back_as_it_went(invoke, tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(size))
    ended = invoke("echo", "--file", str(path))
    assert ended.status == 0
    assert ended.output == path.read_bytes()
    counted = {0: "no part came back", 300_000: "5 parts back"}.get(size, "1 part back")
    assert ended.errors.startswith(counted)


def test_a_file_goes_in_binary_parts(invoke, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\x00\x01\xff" + bytes(65_540))
    ended = invoke("echo", "--file", str(path), "--frames", "--partial")
    beginning = "00 01 ff" + " 00" * 37 + " …"
    assert brief(ended.output, "↑") == [
        ("BINARY", "PARTIAL", 65_536, beginning),
        ("BINARY", "COMPLETE", 7, "00 00 00 00 00 00 00"),
    ]


@pytest.mark.parametrize("flag", ["--file", "--wav"])
def test_a_file_that_is_not_there(asked_wrongly, flag):
    """That is said before anything is asked of a gateway."""
    ended = asked_wrongly("echo", flag, "/no/such/file", "--gateway", "http://127.0.0.1:1")
    assert (ended.status, ended.output) == (2, b"")
    assert ended.errors == f"partway invoke: {flag} /no/such/file: No such file or directory\n"


# --- Sound ---------------------------------------------------------------------------------------


def write_wav(path: Path, seconds: float, rate: int = 8000, channels: int = 1) -> bytes:
    samples = os.urandom(int(rate * seconds) * 2 * channels)
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(samples)
    return samples


def test_sound_goes_in_parts_of_20_ms(invoke, tmp_path):
    path = tmp_path / "call.wav"
    samples = write_wav(path, 0.05, rate=44_100, channels=2)
    assert len(samples) == 8820
    sent = brief(invoke("echo", "--wav", str(path), "--frames").output, "↑")
    assert [size for _, _, size, _ in sent] == [3528, 3528, 1764]
    assert {kind for kind, *_ in sent} == {"BINARY"}


def sent_at(output: bytes) -> list[float]:
    return [float(shown["time"]) for shown in frames(output) if shown["way"] == "↑"]


def test_in_realtime_sound_is_sent_as_fast_as_it_sounds(invoke, tmp_path):
    path = tmp_path / "call.wav"
    write_wav(path, 0.6)
    ended = invoke("echo", "--wav", str(path), "--pace", "realtime", "--frames")
    times = sent_at(ended.output)  # since the stream is open, which is before the first is due
    assert len(times) == 30
    for number, at in enumerate(times):
        assert at > number * 0.02 - 0.001, "not before it is due"
    assert ended.status == 0


def test_without_a_pace_sound_is_sent_at_once(invoke, tmp_path):
    path = tmp_path / "call.wav"
    write_wav(path, 20)
    times = sent_at(invoke("echo", "--wav", str(path), "--frames").output)
    assert len(times) == 1000
    assert times[-1] - times[0] < 10


def test_a_file_that_is_no_sound(asked_wrongly, tmp_path):
    path = tmp_path / "call.wav"
    path.write_bytes(b"ID3\x03 and so on")
    ended = asked_wrongly("echo", "--wav", str(path), "--gateway", "http://127.0.0.1:1")
    assert ended.status == 2
    assert ended.errors.startswith(f"partway invoke: --wav {path}: it does not begin with RIFF")


def test_sound_goes_as_the_model_asks_for_it(invoke, tmp_path):
    path = tmp_path / "call.wav"
    write_wav(path, 0.1, rate=48_000, channels=2)
    asked = ["--path", "says", "--query", "encoding=linear16&sample_rate=16000&channels=1"]
    ended = invoke("scripted", *asked, "--wav", str(path), "--frames")
    assert f"{path}: 48000 Hz, 2 channels, 16 bits; sent as 16000 Hz, 1 chan" in ended.errors
    flags = ["--rate", "8000", "--channels", "1"]
    ended = invoke("echo", "--wav", str(path), *flags, "--frames")
    assert [size for _, _, size, _ in brief(ended.output, "↑")] == [320] * 5


# --- Waiting -------------------------------------------------------------------------------------


def test_the_first_part_is_timed_from_the_last_one_sent(invoke, tmp_path):
    """A second and a half of sound is said first; the model answers when it has heard all of it."""
    path = tmp_path / "call.wav"
    write_wav(path, 1.5)
    ended = invoke("scripted", "--path", "hears-75", "--wav", str(path), "--pace", "realtime")
    assert (ended.status, ended.output) == (0, b"heard\n")
    shown = re.match(r"1 part back, time to first part (\d+\.\d) ms\n", ended.errors)
    assert shown, ended.errors
    assert float(shown[1]) < 1000


def test_an_answer_is_waited_for(invoke):
    """By who asks, where the platform closes at the end of input and the container with it."""
    asked = ["closes", "--path", "thinks", "--text", "hi"]
    assert b"thought" not in invoke(*asked).output
    ended = invoke(*asked, "--wait", "3")
    assert (ended.status, ended.output) == (0, b"thought\n")


#: As msgpack: an empty part, which an event without further members is.
EMPTY_PART = b"\x81\xabPayloadPart\x81\xa5Bytes\xc4\x00"


@pytest.mark.parametrize(
    ("says", "before", "after", "noted"),
    [
        ("auto", 1, 2, True),
        ("drain", 0, 1, True),
        ("auto", 1, 0, False),
        ("close", 0, 1, False),
        ("", 0, 1, False),
    ],
)
async def test_what_a_platform_that_closes_would_lose_is_told(
    capfdbinary, says, before, after, noted
):
    """By a gateway that says in its answer what it does when the input ends."""

    def grant(request: bytes) -> bytes:
        more = [f"x-partway-input-end: {says}"] if says else []
        return switching(request, f"Sec-WebSocket-Protocol: {MSGPACK}", *more)

    async with RawContainer(grant) as server:
        url = f"http://127.0.0.1:{server.port}"
        words = ["invoke", "echo", "--gateway", url, "--text", "hi"]
        words += ["--wait", "1"] if before else []
        asking = asyncio.create_task(invoke_command(_parser("invoke").parse_args(words)))
        at_gateway = await server.stream()
        assert b"hi" in (await at_gateway.frame()).payload
        at_gateway.send(frame(BINARY, EMPTY_PART) * before)
        assert b"InputEnd" in (await at_gateway.frame()).payload
        at_gateway.send(frame(BINARY, EMPTY_PART) * after, close(1000))
        at_gateway.end()
        assert await soon(asking) == 0
    _, errors = capfdbinary.readouterr()
    counted, *notes = errors.decode().splitlines()
    total = before + after
    assert counted.startswith(f"{total} part{'s' if total > 1 else ''} back")
    lost = (
        f"parts that came after the end of input: {after}; a platform that closes at once, as AWS "
        "does, may lose such parts of this container; give --wait SECONDS there, and see "
        "https://github.com/partway/partway/blob/main/docs/how-to/configure.md"
    )
    assert notes == ([lost] if noted else [])


@pytest.mark.parametrize("value", ["0", "-1", "x", "nan"])
def test_a_wait_that_is_none(asked_wrongly, value):
    ended = asked_wrongly("echo", "--text", "a", "--wait", value)
    assert ended.status == 2
    assert "it must be a number of seconds over 0" in ended.errors


# --- Standard input ------------------------------------------------------------------------------


def test_a_reply_comes_before_the_next_line_is_typed(start):
    process = start("echo")
    for line in (b"one", b"two"):
        say(process, line + b"\n")
        assert hear(process) == line + b"\n"
    process.stdin.close()
    assert left(process)[0] == 0


def test_lines_are_messages(invoke):
    ended = invoke("echo", "--frames", input="ü\r\n\nlast".encode())
    assert brief(ended.output, "↑") == [
        ("UTF8", "COMPLETE", 2, "'ü'"),
        ("UTF8", "COMPLETE", 0, "''"),
        ("UTF8", "COMPLETE", 4, "'last'"),
    ]
    assert ended.status == 0


def test_lines_as_one_message(invoke):
    ended = invoke("echo", "--frames", "--partial", input=b"a\nb\n")
    assert brief(ended.output, "↓") == [
        ("UTF8", "PARTIAL", 1, "'a'"),
        ("UTF8", "PARTIAL", 1, "'b'"),
        ("UTF8", "COMPLETE", 0, "''"),
    ]


def test_many_lines(invoke):
    lines = b"".join(b"line %d\n" % number for number in range(3000))
    ended = invoke("echo", input=lines)
    assert (ended.status, ended.output) == (0, lines)


def test_nothing_to_say(invoke):
    assert invoke("echo") == (0, b"", "no part came back\n")


def test_standard_input_from_a_file(gateway, command, tmp_path):
    path = tmp_path / "questions.txt"
    path.write_bytes(b"one\ntwo\n")
    with path.open("rb") as questions:
        process = subprocess.run(
            command("echo"),
            stdin=questions,
            capture_output=True,
            timeout=PATIENCE,
            env=environment(gateway),
            check=True,
            cwd=ROOT,
        )
    assert process.stdout == b"one\ntwo\n"


# --- Ends ----------------------------------------------------------------------------------------


def test_the_model_ends_it_while_input_is_still_open(start):
    """Nobody types any more: the process ends all the same, and cleanly."""
    process = start("scripted", "--path", "leaves")
    say(process, b"hi\n")
    status, errors = left(process)
    assert status == 1
    assert errors.splitlines() == [
        "no part came back",
        "partway invoke: ModelStreamFailed: 4000: out of memory (trying again will not help)",
    ]


def test_the_model_ends_it_cleanly_while_input_is_still_open(start):
    process = start("ends", "--path", "leaves-normally")
    say(process, b"hi\n")
    assert left(process) == (0, "no part came back\n")


def test_the_model_ends_it_under_a_flood_of_lines(invoke):
    ended = invoke("scripted", "--path", "leaves", input=b"line\n" * 200_000)
    assert ended.status == 1
    assert ended.errors.splitlines()[-1].startswith("partway invoke: ModelStreamFailed: 4000")
    assert len(ended.errors.splitlines()) == 2, ended.errors


def test_the_model_ends_it_cleanly_under_a_flood_of_lines(invoke):
    """What it did not want to hear is no error."""
    ended = invoke("ends", "--path", "leaves-normally", input=b"line\n" * 200_000)
    assert ended == (0, b"", "no part came back\n")


@pytest.mark.parametrize(
    "asked", [("echo",), ("scripted", "--path", "thinks")], ids=lambda it: it[0]
)
def test_ctrl_c(start, asked):
    process = start(*asked, "--frames")  # neither container ends the stream by itself
    say(process, b"hi\n")
    assert "↑" in hear(process).decode()
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    status, errors = left(process)
    assert status == 130
    assert "Traceback" not in errors
    assert "Fatal" not in errors
    assert time.monotonic() - started < 8


def test_refused_by_the_gateway(invoke):
    ended = invoke("nobody", "--text", "hi")
    assert (ended.status, ended.output) == (1, b"")
    assert ended.errors.splitlines()[-1] == (
        "partway invoke: StreamRefused: InputValidationError (400): there is no endpoint 'nobody' "
        "(trying again will not help)"
    )


def test_refused_by_the_container(invoke):
    ended = invoke("scripted", "--path", "refuses", "--text", "hi")
    assert ended.status == 1
    refusal, original = ended.errors.splitlines()[-2:]
    assert refusal == (
        "partway invoke: StreamRefused: ModelError (424): the container refused the stream with "
        "status 403 (trying again will not help)"
    )
    assert original == "the container said: not you"


def test_no_gateway_there(asked_wrongly):
    ended = asked_wrongly("echo", "--text", "hi", "--gateway", "http://127.0.0.1:1")
    assert ended.status == 1
    last = ended.errors.splitlines()[-1]
    assert last.startswith(
        "partway invoke: GatewayUnreachable: cannot open a stream to http://127.0.0.1:1: "
    )
    assert last.endswith("(trying again may help)")


@pytest.mark.parametrize("url", ["127.0.0.1:8090", "ftp://h", "http://h:99999", "http://"])
def test_a_url_that_is_none(asked_wrongly, url):
    ended = asked_wrongly("echo", "--text", "hi", "--gateway", url)
    assert (ended.status, ended.output) == (2, b"")
    assert "partway invoke: " in ended.errors


@pytest.mark.parametrize(
    "arguments",
    [[], ["echo", "--text", "a", "--file", "b"], ["echo", "--pace", "fast"], ["echo", "--speed"]],
)
def test_bad_usage(asked_wrongly, arguments):
    ended = asked_wrongly(*arguments)
    assert ended.status == 2
    assert ended.errors.startswith("usage: partway ")


def test_path_query_and_names(invoke):
    asked = ["scripted", "--path", "says", "--query", "a=1&b=%20", "--variant", "AllTraffic"]
    ended = invoke(*asked, "--text", "hi")
    assert ended.output == b"/says?a=1&b=%20\n"
    refused = invoke(*asked[:-1], "blue green", "--text", "hi")
    assert refused.status == 1
    assert "TargetVariant must be up to 63 letters, digits and hyphens" in refused.errors
    refused = invoke(*asked, "--container", "pre", "--text", "hi")
    assert "TargetContainerHostname is 'pre'; it must be left out" in refused.errors


# --- On a terminal -------------------------------------------------------------------------------


def on_a_terminal(words: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Run with standard output on a terminal: status and what it shows."""
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=env,
        cwd=ROOT,
    )
    os.close(theirs)
    shown = b""
    try:
        while select.select([terminal], [], [], PATIENCE)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # EIO: the other side is closed
                break
            if not data:
                break
            shown += data
        return process.wait(PATIENCE), shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_colours_on_a_terminal(gateway, command):
    words = command("echo", "--text", "hi", "--frames")
    status, shown = on_a_terminal(words, environment(gateway))
    sent, received = shown.splitlines()
    assert status == 0
    assert re.fullmatch("\x1b\\[36m.*↑.*'hi'\x1b\\[0m", sent)
    assert re.fullmatch("\x1b\\[32m.*↓.*'hi'\x1b\\[0m", received)


@pytest.mark.parametrize("value", ["1", ""])
def test_no_colours_where_none_are_wanted(gateway, command, value):
    words = command("echo", "--text", "hi", "--frames")
    status, shown = on_a_terminal(words, environment(gateway, NO_COLOR=value))
    assert status == 0
    assert "\x1b" not in shown
    assert "↑" in shown


def test_no_colours_in_a_pipe(invoke):
    assert b"\x1b" not in invoke("echo", "--text", "hi", "--frames").output


def test_a_model_does_not_steer_a_terminal(gateway, command, invoke):
    words = command("ends", "--path", "steers", "--text", "hi")
    status, shown = on_a_terminal(words, environment(gateway))
    assert (status, shown) == (0, "red\r\n")
    piped = invoke("ends", "--path", "steers", "--text", "hi").output
    assert piped == b"\x1b[2Jred\x1b]0;title\x07\n", "a pipe gets what was said"


def test_binary_is_not_thrown_at_a_terminal(gateway, command):
    words = command("ends", "--path", "speaks-binary", "--text", "hi")
    status, shown = on_a_terminal(words, environment(gateway))
    assert (status, shown) == (0, "<1234 bytes>\r\n")
