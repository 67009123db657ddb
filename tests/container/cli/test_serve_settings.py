from __future__ import annotations

from pathlib import Path

import pytest

from partway.container.cli import CommandError
from partway.container.cli.serve_settings import (
    read_finish_timeout,
    read_host,
    read_log_format,
    read_log_level,
    read_model_dir,
    read_port,
)
from partway.container.limits import FINISH_TIMEOUT
from partway.container.server import MODEL_DIR


def test_a_flag_goes_before_its_variable(tmp_path: Path) -> None:
    environ = {
        "SAGEMAKER_BIND_TO_PORT": "9000",
        "SM_MODEL_DIR": "/nowhere",
        "PARTWAY_FINISH_TIMEOUT": "a while",
        "PARTWAY_LOG_LEVEL": "loud",
    }
    assert read_port("0", environ) == 0
    assert read_host("::1", {"PARTWAY_BIND_TO_HOST": "127.0.0.1"}) == "::1"
    assert read_model_dir(str(tmp_path), environ) == tmp_path
    assert read_finish_timeout("0.5", environ) == 0.5
    assert read_log_level("debug", environ) == "debug"


def test_a_variable_goes_before_the_default(tmp_path: Path) -> None:
    assert read_port(None, {"SAGEMAKER_BIND_TO_PORT": "9000"}) == 9000
    assert read_host(None, {"PARTWAY_BIND_TO_HOST": "127.0.0.1"}) == "127.0.0.1"
    assert read_model_dir(None, {"SM_MODEL_DIR": str(tmp_path)}) == tmp_path
    assert read_finish_timeout(None, {"PARTWAY_FINISH_TIMEOUT": "7"}) == 7.0
    assert read_log_level(None, {"PARTWAY_LOG_LEVEL": "error"}) == "error"
    assert read_log_format(None, {"PARTWAY_LOG_FORMAT": "json"}) == "json"


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
    assert read_port(None, environ) == 8080
    assert read_host(None, environ) == "0.0.0.0"  # clause 1.1-2: it is reached from outside
    assert read_model_dir(None, environ) == MODEL_DIR
    assert read_finish_timeout(None, environ) == FINISH_TIMEOUT
    assert read_log_level(None, environ) == "info"
    assert read_log_format(None, environ) == "text"


def test_what_is_wrong_names_its_source() -> None:
    with pytest.raises(CommandError, match=r"^PARTWAY_FINISH_TIMEOUT 'nan' was given; it must be"):
        read_finish_timeout(None, {"PARTWAY_FINISH_TIMEOUT": "nan"})
    with pytest.raises(CommandError, match=r"^--finish-timeout '0' was given; it must be"):
        read_finish_timeout("0", {"PARTWAY_FINISH_TIMEOUT": "7"})
    with pytest.raises(CommandError, match=r"^SM_MODEL_DIR /nowhere: there is no such folder"):
        read_model_dir(None, {"SM_MODEL_DIR": "/nowhere"})
    with pytest.raises(CommandError, match=r"^PARTWAY_LOG_FORMAT 'xml' was given; it must be one"):
        read_log_format(None, {"PARTWAY_LOG_FORMAT": "xml"})
