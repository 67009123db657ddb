"""The images, as far as their recipes say (section 1.1). ``make image`` builds and runs them."""

from __future__ import annotations

import fnmatch
import re
import tomllib

import pytest

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.settings.settings import load
from partway.gateway.tls.local_ca import default_directory
from tests.conftest import ROOT
from tests.dockerfiles import Instruction, Recipe, departures

OURS = ROOT / "Dockerfile"
STARTER = ROOT / "container" / "starter" / "Dockerfile"

METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(params=[OURS, STARTER], ids=["ours", "starter"])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return Recipe(request.param.read_text("utf-8"))


@pytest.fixture
def ours() -> Recipe:
    return Recipe(OURS.read_text("utf-8"))


@pytest.fixture
def gateway() -> Recipe:
    return Recipe(OURS.read_text("utf-8"), "gateway")


# --- What the platform asks ----------------------------------------------------------------------


@pytest.mark.clause("1.1-1", "1.1-2", "1.1-4")
def test_the_image_is_what_the_platform_asks_for(recipe):
    assert departures(recipe) == []


def test_the_entry_point_is_the_container_s_command(recipe):
    (entry,) = recipe.named("ENTRYPOINT")
    assert entry.command == ["partway-container"]
    assert "partway-container" in METADATA["project"]["scripts"]


def test_the_base_image_can_be_another(recipe):
    """Also one with CUDA: nothing but the base is asked to bring Python."""
    first, *_ = recipe.all
    assert first.name == "ARG"
    variable, _, default = first.arguments.partition("=")
    assert re.fullmatch(r"python:3\.\d+-slim", default)
    assert tuple(map(int, re.findall(r"\d+", default))) >= (3, 11)
    bases = [each.arguments.split() for each in recipe.all if each.name == "FROM"]
    stages = {words[2] for words in bases if len(words) == 3}
    assert {words[0] for words in bases} - stages == {f"${{{variable}}}"}


def test_what_a_model_prints_is_in_the_log_at_once(recipe):
    assert recipe.values("ENV")["PYTHONUNBUFFERED"] == "1"


def test_dependencies_come_before_the_code(recipe):
    """Their layer is then built once, not with each change of the code."""
    copied = [each.arguments.split()[0] for each in recipe.named("COPY")]
    assert copied[0] != "."
    first_copy_of_code = recipe.image.index(recipe.named("COPY")[-1])
    installs = [
        number
        for number, each in enumerate(recipe.image)
        if each.name == "RUN" and "pip install" in each.arguments
    ]
    assert installs[0] < first_copy_of_code


def test_only_an_author_chooses_the_model(ours):
    """Echo is what the command itself falls back to; an author's ENV has nothing to undo."""
    assert [name for name in ours.values("ENV") if name.startswith(("PARTWAY", "SM_"))] == []


# --- The gateway's -------------------------------------------------------------------------------


def test_the_container_is_what_is_built_unless_the_gateway_is_asked_for(ours):
    assert ours.image == Recipe(OURS.read_text("utf-8"), "container").image


def test_the_gateway_s_image_runs_the_gateway_as_nobody(gateway):
    """And as process 1, which SIGTERM reaches; it has nothing of the model's."""
    assert gateway.last("ENTRYPOINT").command == ["partway"]
    assert gateway.last("CMD").command == ["serve"]
    assert "partway" in METADATA["project"]["scripts"]
    assert gateway.last("USER").arguments == "65532:65532"
    assert gateway.values("LABEL") == {}
    assert gateway.last("EXPOSE").arguments == "8090 8443"


def test_the_gateway_s_image_lets_nobody_in_unasked(gateway):
    """It listens beyond loopback, and leaves --insecure or --auth to whoever runs it."""
    variables = gateway.values("ENV")
    assert variables["PARTWAY_HOST"] == "0.0.0.0"
    assert [name for name in variables if name.startswith("PARTWAY_")] == ["PARTWAY_HOST"]
    with pytest.raises(SettingsError, match="add --auth sigv4, or --insecure"):
        load({}, variables)


def test_the_gateway_s_ca_has_a_place_of_its_own(gateway):
    place = default_directory(gateway.values("ENV")).parent
    made = [each.arguments for each in gateway.named("RUN")][-1]
    assert made == f"install -d -m 700 -o 65532 -g 65532 {place}"


# --- That its absence would be seen --------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "instead", "says"),
    [
        (r"^LABEL .*$", "", "no label"),
        (r"(?<=bidirectional-streaming)=true", "=yes", "no label"),
        (r"^ENTRYPOINT.*$", "", "no entry point"),
        (r"^ENTRYPOINT.*$", "ENTRYPOINT partway-container", "a shell's"),
        (r"^ENTRYPOINT.*$", "ENTRYPOINT ['partway-container']", "a shell's"),
        (r"^ENTRYPOINT.*$", 'ENTRYPOINT ["partway-container", "serve"]', "the platform appends"),
        (r"^ENTRYPOINT.*$", 'ENTRYPOINT ["/usr/bin/tini", "--", "partway-container"]', "before"),
        (r"^CMD.*$", 'CMD ["serve", "--port", "80"]', "by default"),
        (r"^CMD.*$", "CMD serve", "by default"),
        (r"^EXPOSE.*$", "EXPOSE 80", "8080"),
        (r"^WORKDIR.*$", "", "no directory"),
        (r"^WORKDIR.*$", "WORKDIR program", "no directory"),
        (r"^WORKDIR.*$", "WORKDIR /opt/ml/model/code", "hide"),
        (r"\Z", "USER model\n", "not as root"),
        (r"\Z", "STOPSIGNAL SIGINT\n", "SIGINT"),
        (r"\Z", "FROM scratch\n", "no label"),
    ],
)
def test_departures_are_seen(pattern, instead, says):
    text = re.sub(pattern, instead, OURS.read_text("utf-8"), flags=re.MULTILINE)
    assert says in "\n".join(departures(Recipe(text)))


@pytest.mark.parametrize(
    "more", ["USER root", "USER 0", "STOPSIGNAL SIGTERM", "EXPOSE 8080/tcp 9000", "USER a\nUSER 0"]
)
def test_what_is_no_departure(more):
    assert departures(Recipe(f"{OURS.read_text('utf-8')}\n{more}\n")) == []


def test_the_parser_of_these_tests():
    text = (
        "# no\nARG A=1\nfrom a AS b\nLABEL of=another\n"
        "FROM a\nRUN a && \\\n  # b\n    b \\  \n c\n\n# ENTRYPOINT x\n"
        "ENV A=1 B='2 3'\nENV C 4 5\nENTRYPOINT [\"x\"]\nENTRYPOINT [1]\n"
    )
    recipe = Recipe(text)
    assert recipe.all[:3] == [("ARG", "A=1"), ("FROM", "a AS b"), ("LABEL", "of=another")]
    assert recipe.image[:2] == [("FROM", "a"), ("RUN", "a && b c")]
    assert recipe.values("LABEL") == {}
    assert recipe.values("ENV") == {"A": "1", "B": "2 3", "C": "4 5"}
    assert [each.command for each in recipe.named("ENTRYPOINT")] == [["x"], None]
    assert recipe.last("USER") is None
    assert Instruction("CMD", "a b").command is None
    stages = "FROM x AS a\nRUN 1\nFROM a AS b\nRUN 2\nFROM a AS c\nRUN 3\n"
    assert [each.arguments for each in Recipe(stages).named("RUN")] == ["1", "3"]
    assert [each.arguments for each in Recipe(stages, "b").named("RUN")] == ["1", "2"]
    with pytest.raises(ValueError, match="here-documents"):
        Recipe("FROM a\nRUN <<EOF\nls\nEOF\n")


# --- What is sent to the build -------------------------------------------------------------------


def is_ignored(path: str) -> bool:
    """As Docker reads .dockerignore: the last pattern that matches a path or a folder above it."""
    parts = path.split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    ignored = False
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.strip().strip("/")
        if not pattern or pattern.startswith("#"):
            continue
        wanted = pattern.startswith("!")
        expression = pattern.removeprefix("!").replace("**/", "*/")
        names = {expression, expression.removeprefix("*/")}
        if any(
            fnmatch.fnmatchcase(place, name) and ("/" in name or "/" not in place)
            for place in above
            for name in names
        ):
            ignored = not wanted
    return ignored


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", ".git", ".venv/bin/python", "venv/bin/python", ".ci/x", ".pytest_cache/v",
        ".mypy_cache/x", ".hypothesis/x", "build/x", "dist/partway.whl", "tests/conftest.py",
        "docs/README.md", "benchmarks/relay.py", "Makefile", "Dockerfile", "principals.toml",
        "container/__pycache__/x.pyc", "gateway/cli/__pycache__/x.pyc",
        "src/partway/__pycache__/x.pyc",
    ],
)  # fmt: skip
def test_what_stays_out_of_the_build(path):
    assert is_ignored(path)


def needed() -> list[str]:
    wheel = METADATA["tool"]["hatch"]["build"]["targets"]["wheel"]
    metadata = METADATA["project"]
    files = ["pyproject.toml", metadata["readme"], *metadata["license-files"]]
    (top,) = wheel["packages"]
    links = [path for path in (ROOT / top).iterdir() if path.is_symlink()]
    for folder in (ROOT / top, *(link.resolve() for link in links)):
        files += [
            path.relative_to(ROOT).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ]
    return files


def test_what_the_build_needs_goes_in():
    assert len(needed()) > 30
    assert {"src/partway/py.typed", "container/runtime.py"} <= set(needed())
    assert [path for path in needed() if is_ignored(path) or not (ROOT / path).exists()] == []


def test_each_file_that_a_recipe_copies_goes_in(ours):
    for each in ours.named("COPY"):
        *sources, _ = each.arguments.split()
        assert not any(is_ignored(source) for source in sources if source != ".")
