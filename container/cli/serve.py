"""``partway-container serve``: run a container until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from partway.container.bridge.settings import BridgeSettings
from partway.container.cli import COMMANDS, CommandError, serve_bridge
from partway.container.cli.environment import VARIABLES, variables_of_models
from partway.container.cli.serve_settings import (
    LOG_LEVELS,
    PORT,
    read_finish_timeout,
    read_host,
    read_log_format,
    read_log_level,
    read_method,
    read_model_dir,
    read_port,
    read_show_errors,
    set_variables,
)
from partway.container.cli.target import (
    KINDS,
    ModelTarget,
    choose,
    make_model,
    one_line,
    put_on_path,
)
from partway.container.errors import CannotServe, LoadFailed, SettingsRefused
from partway.container.guard import LoopGuard
from partway.container.hosting import METHODS, Method
from partway.container.limits import CANCEL_GRACE, FINISH_TIMEOUT, MAX_RUNNING
from partway.container.model import Model
from partway.container.models import MODELS
from partway.container.server import MODEL_DIR, ModelServer
from partway.log_lines import LOG_FORMATS, LogLine, say_listening, start_logging
from partway.variables import unknown_variables

try:
    import uvloop
except ImportError:  # uvloop does not exist for this platform
    _new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    _new_event_loop = uvloop.new_event_loop

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_log = logging.getLogger("partway.container.cli")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: Time limit after the orderly end, while Python waits for threads and runs exit handlers, a
#: model's included. With the 27 s of a whole shutdown it ends before SIGKILL at 30 s (1.1-1).
EXIT_GRACE = 1.0

_EPILOG = """\
A flag overrides its variable, and a variable overrides the default. The platform adds no flags, so
an image sets PARTWAY_MODEL, PARTWAY_APP, PARTWAY_SCRIPT, PARTWAY_SKLEARN or PARTWAY_UPSTREAM.

examples:
  partway-container serve --model echo --host 127.0.0.1
  partway-container serve --model model:Chat --port 0
  partway-container serve --sklearn model.joblib --host 127.0.0.1
  partway-container serve --upstream ws://localhost:8081/v1/realtime -- vllm serve MODEL --port 8081
"""


class Server(Protocol):
    """The server that the command runs: a model's, an application's or a bridge."""

    async def start(self) -> int: ...
    async def load(self) -> None: ...
    def stop(self) -> None: ...
    async def stopped(self) -> None: ...
    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address to listen on.

    Attributes:
        host: a name or an address.
        port: the TCP port; 0 takes a free one.
    """

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Options for serving a model.

    Attributes:
        finish_timeout: seconds of silence allowed to a stream's handler after its input has ended.
        show_errors: whether clients are shown the model's exceptions.
        method: the method to call on a scikit-learn model; None if not given.
        bridge: the settings of a bridge; None if another target is served.
        settings: settings of the model, ``NAME=VALUE`` each.
    """

    model_dir: Path
    finish_timeout: float
    show_errors: bool
    method: Method | None
    bridge: BridgeSettings | None
    settings: Sequence[str]


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "serve",  # the platform appends this word to the image's entry point (clause 1.1-1)
        help=COMMANDS["serve"],
        description=(
            "Serve a model, an application, a classic inference script, a scikit-learn model or "
            "another WebSocket server until SIGTERM."
        ),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help=f"module:Class, or a shipped model: {', '.join(sorted(MODELS))}; "
        "also PARTWAY_MODEL (echo)",
    )
    parser.add_argument(
        "--app", metavar="MODULE:NAME", help="an ASGI or WSGI application; also PARTWAY_APP"
    )
    parser.add_argument(
        "--script",
        metavar="FILE",
        help="a classic inference script, which has model_fn; also PARTWAY_SCRIPT",
    )
    parser.add_argument(
        "--sklearn",
        metavar="FILE",
        help="a scikit-learn model that joblib.dump() has written; loading it runs its code, so "
        "serve files that you trust; also PARTWAY_SKLEARN",
    )
    parser.add_argument(
        "--method",
        metavar="METHOD",
        help="the method of the scikit-learn model to call: predict or predict_proba; "
        "also PARTWAY_METHOD (predict)",
    )
    serve_bridge.add_flags(parser)
    parser.add_argument(
        "--model-dir",
        metavar="DIR",
        help=f"the folder that the model loads from; also SM_MODEL_DIR ({MODEL_DIR})",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the model: for chat, --set upstream=http://localhost:8000/v1 stands for "
        "its variable PARTWAY_CHAT_UPSTREAM; may be repeated",
    )
    parser.add_argument("--host", help="address to listen on; also PARTWAY_BIND_TO_HOST (0.0.0.0)")
    parser.add_argument(
        "--port", help=f"TCP port, 0 for a free one; also SAGEMAKER_BIND_TO_PORT ({PORT})"
    )
    parser.add_argument(
        "--finish-timeout",
        metavar="SECONDS",
        help="seconds that a stream's model may be silent after its client's input has ended; "
        f"also PARTWAY_FINISH_TIMEOUT ({FINISH_TIMEOUT:g})",
    )
    parser.add_argument(
        "--show-errors",
        action="store_true",
        help="answer a failed invocation with the exception and the model's own frames, for "
        "development; also PARTWAY_SHOW_ERRORS=1 (only the exception's type)",
    )
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        help="the least severe lines to write to standard error; also PARTWAY_LOG_LEVEL (info)",
    )
    parser.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        help="how the log's lines look: text, or json with one object a line; "
        "also PARTWAY_LOG_FORMAT (text)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status.

    Raises:
        CommandError: the command cannot do what it was asked.
    """
    environ = os.environ
    if unknown := unknown_variables(environ, VARIABLES | variables_of_models(environ)):
        raise CommandError(unknown)
    level = read_log_level(options.log_level, environ)
    log_format = read_log_format(options.log_format, environ)
    start_logging(level, log_format)
    target = choose({kind: getattr(options, kind) for kind in KINDS}, environ)
    address = ListenAddress(read_host(options.host, environ), read_port(options.port, environ))
    model_dir = read_model_dir(options.model_dir, environ)
    serving = ServingOptions(
        model_dir,
        read_finish_timeout(options.finish_timeout, environ),
        read_show_errors(flag=options.show_errors, environ=environ),
        read_method(options.method, environ, METHODS),
        serve_bridge.read_bridge(options, target, environ),
        options.set,
    )
    _raise_descriptor_limit(MAX_RUNNING if serving.bridge is None else 2 * MAX_RUNNING)
    _leave_on_signal(0)  # importing may take a minute
    make_server = _server_for(target, address, serving)
    return _run_loop(_serve(target, make_server, address))


# --- What is served ------------------------------------------------------------------------------


def _server_for(
    target: ModelTarget, address: ListenAddress, serving: ServingOptions
) -> Callable[[], Server]:
    """Import the target; return a function that makes its server, on a running loop.

    Raises:
        CommandError: the target does not exist, or cannot be imported.
    """
    if serving.method is not None and target.kind != "sklearn":
        raise CommandError(
            f"the method {serving.method} was given with {target.source} {target.name}; "
            "a method is allowed only with --sklearn"
        )
    if target.kind != "model":
        set_variables(serving.settings, target.name, None, os.environ)
    if target.kind == "app":
        from partway.container.hosting.asgi import AppServer

        put_on_path(Path.cwd())
        return lambda: AppServer(target.name, address.host, address.port)
    if serving.bridge is not None:
        return _bridge_server(serving.bridge, address, serving.finish_timeout)
    if target.kind == "script":
        from partway.container.hosting.script import (
            Script,
        )  # numpy, which other models may not need

        path = Path(target.name)
        if not path.is_file():
            raise target.error(f"there is no such file in {Path.cwd()}")
        model: Model = Script(path)
    elif target.kind == "sklearn":
        model = _sklearn_model(target, serving)
    else:
        model = make_model(target)
        set_variables(serving.settings, target.name, model.settings_type, os.environ)
    return lambda: ModelServer(
        model,
        address.host,
        address.port,
        serving.model_dir,
        finish_timeout=serving.finish_timeout,
        show_errors=serving.show_errors,
    )


def _bridge_server(
    settings: BridgeSettings, address: ListenAddress, finish_timeout: float
) -> Callable[[], Server]:
    from partway.container.bridge.server import BridgeServer
    from partway.container.bridge.stream import StreamTimes

    times = StreamTimes(finish=finish_timeout)
    return lambda: BridgeServer(settings, address.host, address.port, stream_times=times)


def _sklearn_model(target: ModelTarget, serving: ServingOptions) -> Model:
    from partway.container.hosting.sklearn_model import SklearnModel  # numpy, as above

    path = Path(target.name)
    if not path.is_file() and not (serving.model_dir / path).is_file():
        raise target.error(
            f"there is no such file in {Path.cwd()} or in the model's folder {serving.model_dir}"
        )
    put_on_path(Path.cwd())  # pickles look for their classes by the modules' names
    return SklearnModel(path, serving.method or "predict")


# --- Serving -------------------------------------------------------------------------------------


async def _serve(
    target: ModelTarget, make_server: Callable[[], Server], address: ListenAddress
) -> int:
    """Serve until a signal, then shut down in order; a second signal shortens the shutdown."""
    try:
        server = make_server()
    except TypeError as error:  # handlers that are not async
        raise target.error(str(error), status=1) from error
    except SettingsRefused as error:
        raise CommandError(str(error)) from None
    except LoadFailed as error:  # an extra that is not installed
        raise target.error(f"{error.__cause__}", status=1) from error
    stopping = False

    def on_signal() -> None:
        nonlocal stopping
        stopping = True
        server.stop()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    guard = LoopGuard()
    guard.start()
    try:
        port = await _start(server, address)
        await _load(server)
        _tune_garbage_collection()
        if not stopping:
            shown = f"[{address.host}]" if ":" in address.host else address.host
            say_listening(f"http://{shown}:{port}")
        await server.stopped()
    except BaseException as error:
        await server.aclose()
        if isinstance(error, SettingsRefused):
            raise CommandError(str(error)) from None
        if isinstance(error, CannotServe):
            raise CommandError(str(error), status=1) from error
        raise
    finally:
        guard.stop()
    return 0


def _tune_garbage_collection() -> None:
    """Run the garbage collector less often: with a thousand streams it takes a tenth of the time.

    By default Python collects after 700 new objects, and a thousand waking streams create that
    many. The objects of a loaded model are frozen: the collector skips them.
    """
    gc.freeze()
    gc.set_threshold(5000, *gc.get_threshold()[1:])


async def _start(server: Server, address: ListenAddress) -> int:
    try:
        return await server.start()
    except OSError as error:
        # asyncio's message for a failed bind is long. A failed look-up of a name has a negative
        # errno.
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise CommandError(
            f"cannot listen on {address.host} port {address.port}: {why}; "
            "choose another with --host or --port",
            status=1,
        ) from None


async def _load(server: Server) -> None:
    try:
        await server.load()
    except LoadFailed as error:
        _log.error(LogLine("loading failed", reason=str(error)), exc_info=error.__cause__)
        raise CommandError(f"{error}: {one_line(error.__cause__)}", status=1) from error


# --- Beginning and ending a process --------------------------------------------------------------


def _raise_descriptor_limit(wanted: int) -> None:
    """Let this process have all the file descriptors it may: each stream needs one or two.

    At the limit uvloop closes new connections without an error.
    """
    try:
        import resource
    except ImportError:  # not POSIX
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS reports "unlimited", but does not accept it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        _log.warning(
            LogLine(
                "the limit of open files is too low for all streams: raise it (ulimit -Hn)",
                limit=soft,
                streams=MAX_RUNNING,
            )
        )


def _leave_on_signal(status: int) -> None:
    """Have a signal end the process at once, before a loop handles signals.

    A signal's default action would use another exit status, and does nothing in a container's first
    process.
    """

    def leave(_number: int, _frame: FrameType | None) -> None:
        os._exit(status)

    for number in _SIGNALS:
        signal.signal(number, leave)


def _run_loop(main: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine on a new loop; tasks that the model leaves running cannot delay the end."""
    status = 1
    loop = _new_event_loop()
    try:
        status = loop.run_until_complete(main)
    except CommandError as error:
        status = error.status
        raise
    finally:
        # asyncio.Runner would wait for the model's tasks and threads, even if they hang.
        loop.run_until_complete(_cancel_the_rest())
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # closing resets their handlers
        loop.close()
        _leave_on_signal(status)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        _leave_soon(status)
    return status


async def _cancel_the_rest() -> None:
    """Cancel tasks that the model has started; those that ignore it are left."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=CANCEL_GRACE)
    with suppress(TimeoutError):
        async with asyncio.timeout(CANCEL_GRACE):
            await asyncio.get_running_loop().shutdown_asyncgens()


def _leave_soon(status: int) -> None:
    """Make sure that the process exits, whatever the model's threads do.

    Python waits at its exit for all threads that are not daemons, executors' among them.
    """

    def leave() -> None:
        left = [
            thread.name
            for thread in threading.enumerate()
            if thread is not threading.main_thread() and not thread.daemon
        ]
        names = ", ".join(left) or None  # None: an exit handler hangs
        _log.warning(LogLine("threads still run: the process ends without them", threads=names))
        logging.shutdown()
        os._exit(status)

    timer = threading.Timer(EXIT_GRACE, leave)
    timer.daemon = True
    timer.name = "partway-exit"
    timer.start()
    with suppress(OSError):  # the reader of the log is gone
        sys.stdout.flush()
