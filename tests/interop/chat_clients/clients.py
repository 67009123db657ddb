"""The clients, each in a process of its own interpreter, and what each is able to ask.

A program beside this module drives one library. It takes these commands, each with ``at``: the
server's members, the client's name, ``enough``, and ``most`` and ``stop`` for the answer.

==========  ========================  =============================================================
``whole``   ``said``, members         ``{"text", "usage"}``, usage as two counts, or null
``stream``  ``said``                  ``{"pieces", "usage"}``
``tool``    ``said``, ``tool``        ``{"calls", "text"}``: a tool of the client's is called, and
                                      its result is answered
``schema``  ``said``, ``schema``      the object that the answer is, or the answer's text
``leave``   ``said``                  how many pieces came before the client left: ``enough``
``embed``   ``texts``                 vectors
==========  ========================  =============================================================
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.interop.aws_sdk import Sdk, ServedGateway
from tests.interop.chat_clients.servers import Server
from tests.interop.js_sdk import installed
from tests.interop.served_api import surroundings

_HERE = Path(__file__).parent

#: Pieces of an answer after which a client leaves.
ENOUGH: Final = 3

#: Tokens of an answer, and of one that a client leaves.
MOST: Final = 64
ENDLESS: Final = 4000

#: Ends of an answer, for agents that take one that was cut for an error.
STOPS: Final = (".", "!", "?", ",")

#: Seconds for one command.
ANSWERED: Final = 60.0

_ALL: Final = frozenset({"whole", "stream", "usage", "tool", "schema", "leave", "error"})


@dataclass(frozen=True, slots=True)
class Client:
    """One of a library's clients.

    Attributes:
        name: for people.
        program: what drives the library; a module in JavaScript runs on node.
        environment: what the library is installed in: ``chat``, ``strands`` or ``node``.
        kind: which of the library's clients.
        able: what it is able to ask.
        of_aws: whether it calls InvokeEndpoint, and not OpenAI's API.
        mute: the commands whose exceptions show a refusal's status, and drop its reason.
    """

    name: str
    program: str
    environment: str
    kind: str
    able: frozenset[str]
    of_aws: bool = False
    mute: frozenset[str] = frozenset()


CLIENTS: Final = (
    Client("openai (Python)", "drive_openai.py", "chat", "openai", _ALL | {"embed"}),
    Client("openai (JavaScript)", "drive_openai.mjs", "node", "openai", _ALL | {"embed"}),
    Client("LiteLLM openai/", "drive_litellm.py", "chat", "openai", _ALL | {"embed"}),
    Client("LiteLLM sagemaker_chat/", "drive_litellm.py", "chat", "sagemaker_chat", _ALL, True),
    Client(
        *("LiteLLM sagemaker/", "drive_litellm.py", "chat", "sagemaker"),
        frozenset({"whole", "stream", "leave", "error"}),
        True,
        frozenset({"whole"}),
    ),
    Client("LangChain ChatOpenAI", "drive_langchain.py", "chat", "ChatOpenAI", _ALL | {"embed"}),
    Client(
        *("LangChain ChatSagemakerEndpoint", "drive_langchain.py", "chat", "ChatSagemakerEndpoint"),
        _ALL - {"tool", "schema"},
        True,
    ),
    Client(
        *("LangChain SagemakerEndpoint", "drive_langchain.py", "chat", "SagemakerEndpoint"),
        frozenset({"whole", "stream", "leave", "error"}),
        True,
    ),
    Client("Strands OpenAIModel", "drive_strands.py", "strands", "OpenAIModel", _ALL),
    Client(
        "Strands SageMakerAIModel", "drive_strands.py", "strands", "SageMakerAIModel", _ALL, True
    ),
    Client("OpenAI Agents SDK", "drive_agents.py", "chat", "agents", _ALL),
    Client("Vercel AI SDK", "drive_ai_sdk.mjs", "node", "ai", _ALL | {"embed"}),
)


class Driven:
    """A library in its process.

    Attributes:
        version: the library's name and version.
    """

    def __init__(self, process: Sdk) -> None:
        self._process = process
        self.version = process.version

    @classmethod
    @asynccontextmanager
    async def start(
        cls, program: str, interpreter: str, gateway: ServedGateway, directory: Path
    ) -> AsyncIterator[Driven]:
        """Run a program.

        Args:
            program: its file's name.
            interpreter: runs it.
            gateway: where clients of AWS's find the operations.
            directory: for its log; its home.
        """
        is_js = program.endswith(".mjs")
        path = (installed(_HERE / "js") if is_js else _HERE) / program
        environment = surroundings(directory, gateway.http, interpreter) | {
            "PYTHONPATH": str(_HERE.parent),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # the other one is a download
        }
        async with Sdk.start(
            interpreter,
            gateway.ca,
            directory / f"{program}.log",
            program=path,
            environment=environment,
        ) as process:
            yield cls(process)

    async def ask(self, client: Client, server: Server, command: str, **arguments: Any) -> Any:
        """Have a client do something; return what it got.

        Raises:
            SdkError: the client raised an exception.
        """
        is_left = command == "leave"
        at = {
            **asdict(server),
            "client": client.kind,
            "endpoint": server.name,
            "enough": ENOUGH,
            "most": ENDLESS if is_left else MOST,
            "stop": [] if is_left else STOPS,
        }
        return await self._process.call(command, patience=ANSWERED, at=at, **arguments)


class Libraries:
    """Libraries in their processes, each started when one of its clients is first asked for."""

    def __init__(
        self,
        running: AsyncExitStack,
        pythons: Mapping[str, str],
        gateway: ServedGateway,
        directory: Path,
    ) -> None:
        self._running = running
        self._interpreters = {**pythons, "node": "node"}
        self._gateway = gateway
        self._directory = directory
        self._started: dict[str, Driven] = {}

    @classmethod
    @asynccontextmanager
    async def start(
        cls, pythons: Mapping[str, str], gateway: ServedGateway, directory: Path
    ) -> AsyncIterator[Libraries]:
        """End them all at the end of the block.

        Args:
            pythons: the interpreter of each environment.
            gateway: where clients of AWS's find the operations.
            directory: for files.
        """
        async with AsyncExitStack() as running:
            yield cls(running, pythons, gateway, directory)

    @property
    def versions(self) -> list[str]:
        """Names and versions of those that were started."""
        return [each.version for each in self._started.values()]

    async def of(self, client: Client) -> Driven:
        """The library of a client."""
        if client.program not in self._started:
            starting = Driven.start(
                client.program,
                self._interpreters[client.environment],
                self._gateway,
                self._directory,
            )
            self._started[client.program] = await self._running.enter_async_context(starting)
        return self._started[client.program]
