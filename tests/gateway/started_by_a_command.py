"""A program that writes down how it was started, and then answers every request with 200.

Its first argument is the file for that, as JSON; ``--port=N`` is where it listens. As a script of
``partway dev`` (``SCRIPT_STARTS`` names the file) it writes the same when its model is loaded.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def kind_of(descriptor: int) -> str:
    mode = os.fstat(descriptor).st_mode
    return "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "other"


def opened(path: str) -> str:
    """Open a stream by its path and write to it; returns "written", or the error."""
    try:
        with Path(path).open("w") as stream:
            stream.write(f"by {path}\n")
    except OSError as error:
        return os.strerror(error.errno)
    return "written"


def write_down(file: Path, arguments: list[str]) -> None:
    facts = {
        "stdin": str(Path("/proc/self/fd/0").readlink()),
        "streams": [kind_of(1), kind_of(2)],
        "opened": [opened("/dev/stdout"), opened("/dev/stderr"), opened("/proc/self/fd/2")],
        "arguments": arguments,
        "port": os.environ.get("SAGEMAKER_BIND_TO_PORT"),
    }
    new = file.with_suffix(".new")
    new.write_text(json.dumps(facts))
    new.rename(file)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_parameters = self.path == "/execution-parameters"
        self.send_response(404 if is_parameters else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def model_fn(_folder: str) -> str:
    write_down(Path(os.environ["SCRIPT_STARTS"]), [])
    return "a model"


def main(file: str, *arguments: str) -> None:
    (port,) = (each.partition("=")[2] for each in arguments if each.startswith("--port="))
    write_down(Path(file), list(arguments))
    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
