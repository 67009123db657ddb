"""What every test may use: both event loops, the clause marker's check, the hunt for leaks."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import inspect
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

from tests.exits import failing
from tests.loops import with_one_loop
from tests.pairwise import thinned
from tests.shares import import_own

#: How long an example takes says what else the machine does. What a test allows is counted in work.
settings.register_profile(
    # The same examples each time: a run says something of what has changed. Explore tries new ones,
    # and four times as many.
    "suite",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
settings.register_profile(
    "explore", settings.get_profile("suite"), max_examples=200, derandomize=False
)
settings.load_profile("suite")

# As from a terminal: a shell has its background processes, the suite perhaps, ignore Ctrl-C, and
# the programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No module of tests by its name, so that what its assertions found is not shown otherwise.
pytest.register_assert_rewrite(
    "tests.gateway.fleet.launchers.contract", "tests.interop.kubectl_contract"
)

ROOT = Path(__file__).parent.parent
CONTRACT = ROOT / "docs" / "reference" / "contract.md"

#: Sections of the contract page of which every clause must be claimed by a test. What is built
#: next is added here.
REQUIRED_SECTIONS = (
    *("1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7"),
    *("2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7"),
    *("3", "4"),
)

#: Clauses of those sections that nothing implements yet. What is built next is taken out here.
NOT_YET: frozenset[str] = frozenset()

_CLAUSE_ID = re.compile(r"\*\*(\d+(?:\.\d+)?-\d+)\*\*")
_DESELECTED = pytest.StashKey[int]()
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_HANDLERS = pytest.StashKey[dict[signal.Signals, object]]()
_NARROWING_OPTIONS = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf")


# --- Event loops ---------------------------------------------------------------------------------


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(
            ("asyncio", {"use_uvloop": True}),
            id="uvloop",
            marks=pytest.mark.skipif(
                importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed"
            ),
        ),
    ],
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return request.param


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[object]:
    """Where a coroutine exits, its test fails, and the loop and the run go on."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = failing(pyfuncitem.obj)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Note the signal handlers before a test and its fixtures."""
    item.stash[_HANDLERS] = {number: signal.getsignal(number) for number in _SIGNALS}
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[object]:
    """Report a test that leaves a signal handler behind, and restore the earlier ones."""
    result = yield
    before = item.stash[_HANDLERS]
    left = {number: signal.getsignal(number) for number in before}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert left == before, f"signal handlers left over: {left}"
    return result


# --- Clauses -------------------------------------------------------------------------------------


def contract_ids() -> list[str]:
    """Every clause id that the contract page defines, in order, repetitions included."""
    return _CLAUSE_ID.findall(CONTRACT.read_text("utf-8"))


def required_ids() -> set[str]:
    """The clauses that some test must claim."""
    return {id for id in contract_ids() if id.rsplit("-", 1)[0] in REQUIRED_SECTIONS} - NOT_YET


def claims(items: Iterable[pytest.Item]) -> Iterator[tuple[str, pytest.Item]]:
    """Each claimed clause with the test that claims it. What is skipped outright claims nothing."""
    for item in items:
        for marker in item.iter_markers("clause"):
            if item.get_closest_marker("skip") is None:
                for id in marker.args:
                    yield id, item


def why_not_whole_suite(config: pytest.Config) -> str | None:
    """What narrows this run to less than the whole suite, if anything does."""
    whole = (ROOT, ROOT / "tests")
    if not any(Path(config.invocation_params.dir, arg).resolve() in whole for arg in config.args):
        return f"only {' '.join(config.args)}"
    for option in _NARROWING_OPTIONS:
        if config.getoption(option, None):
            return f"narrowed by {option}"
    if config.stash.get(_DESELECTED, 0):
        return f"{config.stash[_DESELECTED]} tests deselected"
    return None


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        stash = item.config.stash
        stash[_DESELECTED] = stash.get(_DESELECTED, 0) + 1


# --- Cases ---------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--loops",
        choices=("both", "one", "other"),
        default="both",
        help="run each test on both event loops, on one drawn by its name, or on the other one",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of those marked ``pairwise`` as many cases as it takes (see ``tests/pairwise.py``)."""
    kept = thinned(items)
    if (loops := config.getoption("loops")) != "both":
        kept = with_one_loop(kept, other=loops == "other")
    remain = set(kept)
    dropped = [item for item in items if item not in remain]
    items[:] = kept
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        config.stash[_DESELECTED] -= len(dropped)  # the suite is as whole as before


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Workers rewrite each module once between them, and what is collected stays.

    No collection of garbage looks for any in it, then or later.
    """
    gc.disable()
    try:
        if why_not_whole_suite(session.config) is None:
            import_own(session.config, ROOT / "tests")
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# --- One name ------------------------------------------------------------------------------------


@pytest.fixture(scope="session", autouse=True)
def one_name() -> Iterator[None]:
    """Fail a run in which a folder was imported by itself: installed, nobody has it so.

    The top of the checkout is on the path, since tests import one another.
    """
    yield
    strays = sorted({"gateway", "container", "protocol"} & set(sys.modules))
    assert not strays, f"imported past the package partway: {', '.join(strays)}"


# --- Leaks ---------------------------------------------------------------------------------------


def open_sockets() -> set[str]:
    """This process's sockets, each named by its inode; empty where there is no /proc."""
    descriptors = Path("/proc/self/fd")
    found = set()
    for entry in descriptors.iterdir() if descriptors.is_dir() else ():
        try:
            target = str(entry.readlink())
        except OSError:  # the listing's own descriptor, closed by now
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def running_tasks() -> set[asyncio.Task[object]]:
    """This loop's unfinished tasks but for the test runner's own."""
    return {
        task
        for task in asyncio.all_tasks()
        if not task.get_coro().__qualname__.startswith("TestRunner.")  # type: ignore[union-attr]
    }


@pytest.fixture
async def no_leaks(anyio_backend: object) -> AsyncIterator[None]:
    """At the test's end no task and no socket is left that was not there before it.

    The loop gets up to ten seconds for what is merely on its way out. Sockets are counted, not
    compared: uvloop opens a new pair of its own for each run of the loop.
    """
    tasks_before = running_tasks()
    sockets_before = len(open_sockets())
    yield
    deadline = time.monotonic() + 10.0
    while True:
        tasks = running_tasks() - tasks_before
        sockets = len(open_sockets()) - sockets_before
        if not tasks and sockets <= 0:
            return
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(0.01)
    assert not tasks, f"tasks left over: {tasks}"
    assert sockets <= 0, f"{sockets} left over of {psutil.Process().net_connections('all')}"
