"""partway.importing, and which modules an endpoint needs.

A module that is imported to stay is out of the garbage collector's sight.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import partway.gateway
from partway.importing import import_to_stay

#: Imports a module that makes as much as a command's, and says what the collector has done.
PROGRAM = """
import gc, sys
from partway.importing import import_to_stay
sys.path.insert(0, sys.argv[1])
{before}
looks = []
gc.callbacks.append(lambda phase, what: looks.append(what["generation"]))
module = import_to_stay("made")
seen = {{id(each) for each in gc.get_objects()}}
print(len(looks), id(module.KEPT) in seen, gc.isenabled())
"""


def said(tmp_path, before: str = "", module: str = "KEPT = [[] for _ in range(100_000)]") -> str:
    (tmp_path / "made.py").write_text(module)
    program = PROGRAM.format(before=before)
    command = [sys.executable, "-c", program, str(tmp_path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_collector_looks_at_nothing_of_it(tmp_path):
    assert said(tmp_path) == "0 False True\n"


def test_what_is_imported_already_is_left_as_it_is(tmp_path):
    assert said(tmp_path, "import made; gc.collect()") == "0 True True\n"


def test_a_collector_that_was_off_stays_off(tmp_path):
    assert said(tmp_path, "gc.disable()") == "0 True False\n"


def test_after_a_fault_the_collector_is_on_again(tmp_path):
    (tmp_path / "faulty.py").write_text("1 / 0")
    command = (
        "import gc, sys; sys.path.insert(0, sys.argv[1])\n"
        "from partway.importing import import_to_stay\n"
        "try: import_to_stay('faulty')\n"
        "except ZeroDivisionError: print(gc.isenabled())"
    )
    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "True\n"


def test_a_module_that_is_not_there():
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        import_to_stay("partway.nowhere")


# --- What an attached endpoint imports ------------------------------------------------------------

#: Imports the core that serves streams, reads settings, listens without TLS, and has a fleet run
#: one endpoint from its start to its end. Prints the names of our modules that are imported then.
ATTACHED = """
import asyncio, sys
from partway.gateway.settings import settings
from partway.gateway.timing.clock import LoopClock
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.routing.router import Router
from partway.gateway.admin.operations import AdminSocket
from partway.gateway.streams.bidirectional import BidirectionalStream
from partway.gateway.http.dispatcher import Dispatcher
from partway.gateway.http.http1.server import Http1Server
from partway.gateway.http.http2.server import Http2Server
from partway.gateway.http.listener import Listener

async def run(endpoints):
    listener = Listener(None, None, None)
    await listener.start("127.0.0.1", 0)
    listener.stop()
    provisions = Provisions(LoopClock())
    fleet = Fleet(Router(), provisions.means)
    fleet.start(endpoints)
    assert await fleet.settled(60)
    (endpoint,) = fleet.describe()
    fleet.router.lease(endpoint.name).__exit__(None, None, None)
    await provisions.remove_leftovers()
    await fleet.stop()
    await provisions.aclose()

loaded = settings.load({"endpoints": ["chat=http://127.0.0.1:9"]}, {})
asyncio.run(run(loaded.endpoints))
print(*(name for name in sys.modules if name.startswith("partway.")))
"""

#: Beginnings of modules' names: launched containers, model data, archives, the store, certificates,
#: and files of settings.
NOT_NEEDED = (
    "partway.gateway.configuration.toml_bounds",
    "partway.gateway.settings.endpoint_reader",
    "partway.gateway.fleet.processes.child",
    "partway.gateway.fleet.gpus",
    "partway.gateway.fleet.launched_provisions",
    "partway.gateway.fleet.launchers.containers",
    "partway.gateway.fleet.launchers.engine",
    "partway.gateway.fleet.launchers.process",
    "partway.gateway.fleet.launchers.program",
    "partway.gateway.fleet.processes.leash",
    "partway.gateway.fleet.output.log_tail",
    "partway.gateway.fleet.output.capture",
    "partway.gateway.fleet.output.reader",
    "partway.gateway.fleet.processes.process_table",
    "partway.gateway.fleet.health.slow_start",
    "partway.gateway.fleet.health.ping_pace",
    "partway.gateway.fleet.processes.process_table",
    "partway.gateway.http.tls_port",
    "partway.gateway.storage.archives",
    "partway.gateway.storage.model_data",
    "partway.gateway.storage.places.s3_place",
    "partway.gateway.storage.store.backups",
    "partway.gateway.storage.store.database",
    "partway.gateway.storage.store.disk_thread",
    "partway.gateway.storage.store.record_rows",
    "partway.gateway.storage.store.sqlite",
    "partway.gateway.tls.certificates",
    "partway.gateway.tls.context",
    "partway.gateway.tls.local_ca",
)


def test_an_attached_endpoint_imports_what_it_needs():
    command = [sys.executable, "-c", ATTACHED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    imported = done.stdout.split()
    assert "partway.gateway.fleet.launchers.attached" in imported
    assert [name for name in imported if name.startswith(NOT_NEEDED)] == []


def test_each_module_that_it_does_not_need_is_there():
    gateway = Path(partway.gateway.__file__).parent
    for name in NOT_NEEDED:
        path = name.removeprefix("partway.gateway.").replace(".", "/")
        assert list(gateway.glob(f"{path}*")), f"nothing is called {name}"
