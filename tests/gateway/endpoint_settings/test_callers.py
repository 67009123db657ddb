"""partway.gateway.endpoint_settings.callers: what the settings let callers of the API have."""

from __future__ import annotations

import pytest

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.settings import load


@pytest.fixture
def toml(tmp_path):
    """Writes a file of settings; returns its path."""

    def write(text):
        path = tmp_path / "partway.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("pattern", ["*", "", "*_PRELOAD", "A*B", "A=B", "A\\n"])
def test_a_pattern_that_would_let_everything_through(toml, pattern):
    with pytest.raises(SettingsError, match=r"api\.environment.*must be a variable's name, or how"):
        load({}, {}, toml(f'[api]\nenvironment = ["{pattern}"]\n'))


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_root_that_others_may_write_to(toml, tmp_path, mode):
    root = tmp_path / "models"
    root.mkdir()
    config = toml(f'[api]\nlocal_roots = ["{root}", "{tmp_path}/not-there"]\n')
    root.chmod(mode)
    with pytest.raises(SettingsError, match=f"local_roots: {root}: others may write.*chmod go-w"):
        load({}, {}, config)
    root.chmod(0o755)
    assert root in load({}, {}, config).local_roots
