from __future__ import annotations

from pathlib import Path

import pytest
from partway.container.cli.errors import CommandError

from partway.container.cli import given
from partway.container.limits import FINISH_TIMEOUT
from partway.container.server import MODEL_DIR


def test_a_flag_goes_before_its_variable(tmp_path: Path) -> None:
    environ = {
        "SAGEMAKER_BIND_TO_PORT": "9000",
        "SM_MODEL_DIR": "/nowhere",
        "PARTWAY_FINISH_TIMEOUT": "a while",
        "PARTWAY_LOG_LEVEL": "loud",
    }
    assert given.port("0", environ) == 0
    assert given.host("::1", {"PARTWAY_BIND_TO_HOST": "127.0.0.1"}) == "::1"
    assert given.model_dir(str(tmp_path), environ) == tmp_path
    assert given.finish_timeout("0.5", environ) == 0.5
    assert given.level("debug", environ) == "debug"


def test_a_variable_goes_before_the_default(tmp_path: Path) -> None:
    assert given.port(None, {"SAGEMAKER_BIND_TO_PORT": "9000"}) == 9000
    assert given.host(None, {"PARTWAY_BIND_TO_HOST": "127.0.0.1"}) == "127.0.0.1"
    assert given.model_dir(None, {"SM_MODEL_DIR": str(tmp_path)}) == tmp_path
    assert given.finish_timeout(None, {"PARTWAY_FINISH_TIMEOUT": "7"}) == 7.0
    assert given.level(None, {"PARTWAY_LOG_LEVEL": "error"}) == "error"
    assert given.log_format(None, {"PARTWAY_LOG_FORMAT": "json"}) == "json"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {
            "PARTWAY_BIND_TO_HOST": "",
            "SAGEMAKER_BIND_TO_PORT": "",
            "SM_MODEL_DIR": "",
            "PARTWAY_FINISH_TIMEOUT": "",
            "WORD": "",
        },
    ],
    ids=["unset", "empty"],
)
def test_a_variable_that_is_empty_is_not_set(environ: dict[str, str]) -> None:
    assert given.port(None, environ) == 8080
    assert given.host(None, environ) == "0.0.0.0"  # clause 1.1-2: it is reached from outside
    assert given.model_dir(None, environ) == MODEL_DIR
    assert given.finish_timeout(None, environ) == FINISH_TIMEOUT
    assert given.level(None, environ) == "info"
    assert given.log_format(None, environ) == "text"


def test_what_is_wrong_names_its_source() -> None:
    with pytest.raises(CommandError, match=r"^PARTWAY_FINISH_TIMEOUT 'nan' was given; it must be"):
        given.finish_timeout(None, {"PARTWAY_FINISH_TIMEOUT": "nan"})
    with pytest.raises(CommandError, match=r"^--finish-timeout '0' was given; it must be"):
        given.finish_timeout("0", {"PARTWAY_FINISH_TIMEOUT": "7"})
    with pytest.raises(CommandError, match=r"^SM_MODEL_DIR /nowhere: there is no such folder"):
        given.model_dir(None, {"SM_MODEL_DIR": "/nowhere"})
    with pytest.raises(CommandError, match=r"^PARTWAY_LOG_FORMAT 'xml' was given; it must be one"):
        given.log_format(None, {"PARTWAY_LOG_FORMAT": "xml"})
