"""The tutorial of a fleet as it is printed: its files, and a gateway that runs by them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from partway import connect_sync
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.fleet.status_json import from_json
from tests.processes import ready_url
from tests.test_docs import page

PAGE = page("tutorial/fleet.md")

#: For whatever instances do once they have been told to, in seconds.
PATIENCE = 60


def listings(language: str) -> list[str]:
    """The page's blocks in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


(MODEL,) = listings("python")
(RECIPE,) = listings("dockerfile")
BY_IMAGE, BY_ANOTHER_IMAGE, BY_COMMAND = listings("toml")
OTHER_MODEL = MODEL.replace("Hello", "Good day")


class Served:
    """A gateway with the page's ``partway.toml``, in the folder that has it.

    Args:
        folder: the reader's.
        settings: the file's text.
        variables: of the gateway's environment, beside this process's.
    """

    def __init__(self, folder: Path, settings: str, **variables: str) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._variables = variables
        self.write(settings)

    def __enter__(self) -> Self:
        command = "partway.gateway.cli.main", "serve", "--config", "partway.toml", "--port", "0"
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command, "--data-dir", self._data],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env=os.environ | self._variables,
            )
        try:
            self.url = ready_url(self._process, PATIENCE)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE)
        finally:
            self._end()
        assert self._process.returncode == 0, self.log()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def write(self, settings: str) -> None:
        """Save the file, as an editor does: whole."""
        saved = self._folder / "partway.toml~"
        saved.write_text(settings, "utf-8")
        saved.rename(self._folder / "partway.toml")

    def log(self) -> str:
        return (self._folder / "log").read_text("utf-8")

    def ask(self) -> tuple[str, str, int]:
        """Ask as the page does; returns the greeting, and its replica's host and process."""
        with connect_sync(self.url, "greeter") as stream:
            answer = str(stream.ask("Ada"))
        found = re.fullmatch(r"(.*) Ada, from (\S+) \((\d+)\)", answer)
        assert found, answer
        return found[1], found[2], int(found[3])

    def endpoint(self) -> EndpointStatus:
        """What ``partway endpoints`` says."""
        command = ["partway.gateway.cli.main", "endpoints", "--json", "--data-dir", self._data]
        asked = [sys.executable, "-m", *command]
        done = subprocess.run(asked, stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
        (endpoint,) = from_json(done.stdout)
        return endpoint

    def until(self, is_so: Callable[[EndpointStatus], bool]) -> EndpointStatus:
        last = time.monotonic() + PATIENCE
        while not is_so(endpoint := self.endpoint()):
            assert time.monotonic() < last, f"{endpoint}\n{self.log()}"
        return endpoint


def serving(endpoint: EndpointStatus) -> set[str]:
    """The ids of an endpoint's instances that take streams."""
    (variant,) = endpoint.variants
    return {each.id for each in variant.instances if each.state == "InService"}


def follow(
    served: Served, kill: Callable[[str, int], object], another: str, broken: str, reason: str
) -> None:
    """Do what the page does, from the first conversation on.

    Args:
        served: with the first version.
        kill: ends a replica, by its host and process.
        another: the file with another version.
        broken: the file with one that does not come up.
        reason: what is said of that one.
    """
    first = serving(served.until(lambda endpoint: len(serving(endpoint)) == 2))
    greeting, *dead = served.ask()
    assert greeting == "Hello"
    kill(*dead)
    (left,) = first & serving(served.until(lambda now: len(first & serving(now)) == 1))
    assert served.ask() != ("Hello", *dead)
    healed = served.until(lambda now: len(serving(now)) == 2)
    assert (left in serving(healed), healed.variants[0].restarts) == (True, 1)
    log = served.log()
    assert 'reason="the container was ended by SIGKILL"' in log
    assert "\n    it printed last:\n" in log

    served.write(another)
    served.until(lambda now: not serving(now) & serving(healed) and now.state == "InService")
    assert served.ask()[0] == "Good day"

    served.write(broken)
    failing = served.until(lambda now: bool(now.variants[0].trouble))
    assert (failing.state, len(serving(failing))) == ("Updating", 2)
    assert reason in failing.variants[0].trouble
    assert served.ask()[0] == "Good day"
    served.write(another)
    served.until(lambda now: (now.state, now.variants[0].trouble) == ("InService", ""))
