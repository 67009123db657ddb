"""partway.container.settings: variables become typed settings, or errors that name each of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, Field, SecretStr, model_validator

from partway.container import Model, Processes, Request
from partway.container.errors import SettingsRefused
from partway.container.settings import Settings
from partway.container.testing import Served, serving
from tests.container.cli.commands import ended, started
from tests.container.cli.commands import serving as serving_by_command


def lower(voice: str) -> str:
    if voice != voice.lower():
        raise ValueError("a voice must be in lower case")
    return voice


class TalkSettings(Settings, prefix="TALK_"):
    """One of each kind."""

    voice: Annotated[str, AfterValidator(lower)] = "low"
    tone: Literal["flat", "warm"] = "flat"
    pause: float = Field(0.5, gt=0, le=5)
    turns: int = Field(3, ge=1, le=9)
    rate: int = Field(8000, ge=8000)
    loud: bool = False
    name: str | None = Field(None, min_length=2, max_length=4, pattern="[a-z]+")
    key: SecretStr = Field(SecretStr("none"), max_length=5)
    extra: dict[str, int] = Field({})
    colour: str = Field("red", description="a colour, such as red", pattern="red|blue")

    @model_validator(mode="after")
    def check_turns(self) -> TalkSettings:
        if self.loud and self.turns > 5:
            raise ValueError("a loud voice must have 5 turns or fewer")
        return self


class Needy(Settings, prefix="NEEDY_"):
    where: str
    port: int = 80


class Talker(Model):
    settings_type = TalkSettings
    settings: TalkSettings

    def load(self, model_dir: Path) -> None:
        self.said = f"{self.settings.voice} {self.settings.turns}"

    def computed(self) -> str:
        return self.said

    async def invoke(self, request: Request) -> str:
        return await self.workers.run(self.computed)


class TalkerInProcesses(Talker):
    runs_on = Processes()


class Unrelated(Model):
    """Has an attribute of that name, which is its own and of this process alone."""

    runs_on = Processes()

    def __init__(self) -> None:
        self.settings = lambda: "mine"

    def computed(self) -> str:
        return str(self.settings())

    async def invoke(self, request: Request) -> str:
        return await self.workers.run(self.computed)


def faults(**variables: str) -> list[str]:
    with pytest.raises(SettingsRefused) as caught:
        TalkSettings.from_environment({f"TALK_{key}": value for key, value in variables.items()})
    return str(caught.value).splitlines()


# --- Reading --------------------------------------------------------------------------------------


def test_variables_are_read_by_type_and_empty_ones_are_unset() -> None:
    settings = TalkSettings.from_environment(
        {
            "TALK_VOICE": "high",
            "TALK_PAUSE": "2",
            "TALK_LOUD": "true",
            "TALK_TURNS": "",
            "TALK_KEY": "abc",
            "TALKING": "x",
            "PATH": "/bin",
        }
    )
    assert settings == TalkSettings(voice="high", pause=2.0, loud=True, key=SecretStr("abc"))
    assert "abc" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "must"),
    [
        ("TONE", "sad", "flat or warm"),
        ("PAUSE", "0", "a number, above 0 and at most 5"),
        ("PAUSE", "nan", "a number, above 0 and at most 5"),
        ("TURNS", "10", "a whole number from 1 to 9"),
        ("TURNS", "2.5", "a whole number from 1 to 9"),
        ("RATE", "1", "a whole number, at least 8000"),
        ("LOUD", "perhaps", "true or false"),
        ("NAME", "x", "text of at least 2 and at most 4 characters that matches [a-z]+"),
        ("COLOUR", "green", "a colour, such as red"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(name: str, value: str, must: str) -> None:
    assert faults(**{name: value}) == [f"TALK_{name} is {value!r}; it must be {must}"]


def test_what_a_validator_says_is_shown_as_it_is() -> None:
    assert faults(VOICE="High") == ["TALK_VOICE: a voice must be in lower case"]
    both = faults(LOUD="1", TURNS="7")
    assert both == ["TALK_…: a loud voice must have 5 turns or fewer"]


def test_a_type_without_words_has_pydantics() -> None:
    assert faults(EXTRA="{}") == ["TALK_EXTRA is '{}': Input should be a valid dictionary"]


def test_a_secret_is_never_shown() -> None:
    must = "text of at most 5 characters"
    assert faults(KEY="open sesame") == [
        f"TALK_KEY has a value that is not shown; it must be {must}"
    ]
    with pytest.raises(ValueError, match="key") as caught:
        TalkSettings(key="open sesame")  # type: ignore[arg-type]
    assert "sesame" not in str(caught.value)


def test_a_value_is_cut() -> None:
    assert faults(TURNS="1" * 5000) == [
        f"TALK_TURNS is {'1' * 40!r}; it must be a whole number from 1 to 9"
    ]


def test_a_setting_without_default_must_be_there() -> None:
    for environment in ({}, {"NEEDY_WHERE": ""}):
        with pytest.raises(
            SettingsRefused,
            match=r"^NEEDY_WHERE \(--set where=…\) is not set, or is empty; it must be text$",
        ):
            Needy.from_environment(environment)


def test_each_fault_has_a_line_and_so_has_an_unknown_variable() -> None:
    assert faults(VOCE="x", TURNS="0", TONE="sad") == [
        "TALK_VOCE: this variable is unknown; the nearest known one is TALK_VOICE",
        "TALK_TONE is 'sad'; it must be flat or warm",
        "TALK_TURNS is '0'; it must be a whole number from 1 to 9",
    ]


def test_links_of_kubernetes_are_no_settings() -> None:
    """What it sets beside a Service called ``needy``."""
    links = {"NEEDY_SERVICE_HOST": "10.0.0.11", "NEEDY_PORT": "tcp://10.0.0.11:80"}
    assert Needy.from_environment({**links, "NEEDY_WHERE": "here"}) == Needy(where="here")
    with pytest.raises(SettingsRefused) as caught:
        Needy.from_environment({"NEEDY_WHERE": "here", "NEEDY_QQ": "1"})
    said = "NEEDY_QQ: this variable is unknown; it must be one of NEEDY_PORT, NEEDY_WHERE"
    assert str(caught.value) == said


# --- Prefixes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "TALK", "talk_", "_", "1_", "A__B_"])
def test_a_prefix_that_is_none(prefix: str) -> None:
    with pytest.raises(ValueError, match=f"prefix '{prefix}' was given; it must be capitals"):
        type("Wrong", (Settings,), {}, prefix=prefix)


def test_a_prefix_of_partways_own_variables() -> None:
    with pytest.raises(ValueError, match="variables PARTWAY_… are Partway's own"):
        type("Wrong", (Settings,), {}, prefix="PARTWAY_MINE_")


# --- A model that has them ------------------------------------------------------------------------


@pytest.mark.parametrize("model", [Talker, TalkerInProcesses])
async def test_a_model_and_its_processes_have_them_before_load(
    model: type[Talker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALK_TURNS", "5")
    async with asyncio.timeout(60), serving(model()) as served:
        assert (await served.invoke()).body == b"low 5"
    given = model()
    given.settings = TalkSettings(voice="high")
    async with asyncio.timeout(60), serving(given) as served:
        assert (await served.invoke()).body == b"high 3"


async def test_a_model_without_settings_may_have_the_name_for_itself() -> None:
    async with asyncio.timeout(60), serving(Unrelated()) as served:
        assert (await served.invoke()).body == b"mine"


async def test_wrong_settings_are_refused_before_the_port_is_opened(
    monkeypatch: pytest.MonkeyPatch, anyio_backend: object
) -> None:
    monkeypatch.setenv("TALK_TURNS", "x")
    with pytest.raises(SettingsRefused, match="TALK_TURNS is 'x'; it must be a whole number"):
        async with serving(Talker()):
            pass


# --- The command ----------------------------------------------------------------------------------

OWN = """
from partway import Model, Settings, Stream

class TalkSettings(Settings, prefix="TALK_"):
    voice: str = "low"
    turns: int = 3

class Talker(Model):
    settings_type = TalkSettings

    async def stream(self, stream: Stream) -> None:
        await stream.send(f"{self.settings.voice} {self.settings.turns}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "talker.py").write_text(OWN)
    return tmp_path


def refused(folder: Path, *flags: str, **variables: str) -> tuple[int, str]:
    with started("--model", "talker:Talker", *flags, cwd=folder, **variables) as process:
        status, _, errors = ended(process)
    return status, errors.splitlines()[-1]


def test_set_is_for_an_authors_model_too(folder: Path) -> None:
    flags = ("--model", "talker:Talker", "--set", "voice=high", "--set", "turns=4")
    with serving_by_command(*flags, cwd=folder, TALK_VOICE="low") as (process, port):
        assert asyncio.run(first_message(port)) == "high 4"
        process.terminate()
        assert ended(process)[0] == 0


async def first_message(port: int) -> str | bytes:
    async with Served(f"http://127.0.0.1:{port}").stream() as client:
        return await client.recv()


def test_the_command_says_what_is_wrong(folder: Path) -> None:
    assert refused(folder, "--set", "vioce=x") == (
        2,
        "partway-container: --set vioce=… was given; the model talker:Talker has turns, voice",
    )
    assert refused(folder, TALK_TURNS="many") == (
        2,
        "partway-container: TALK_TURNS is 'many'; it must be a whole number",
    )
