"""partway.gateway.settings.caller_permissions: what the settings let callers of the API have."""

from __future__ import annotations

import pytest

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.settings.settings import load


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
    with pytest.raises(SettingsError, match=r"api\.environment.*must be a variable's name, or the"):
        load({}, {}, toml(f'[api]\nenvironment = ["{pattern}"]\n'))


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_root_that_others_may_write_to(toml, tmp_path, mode):
    root = tmp_path / "models"
    root.mkdir()
    config = toml(f'[api]\nlocal_roots = ["{root}", "{tmp_path}/not-there"]\n')
    root.chmod(mode)
    with pytest.raises(SettingsError, match=f"local_roots: {root}: other users can .*chmod go-w"):
        load({}, {}, config)
    root.chmod(0o755)
    assert root in load({}, {}, config).local_roots


def results(tmp_path, where):
    for name in ("in", "out", "data"):
        (tmp_path / name).mkdir(mode=0o755)
    lines = [f'data_dir = "{tmp_path}/data"', "[api]", f'local_roots = ["{tmp_path}/in"]']
    return "\n".join([*lines, f'local_results = ["{tmp_path}/{where}"]', ""])


@pytest.mark.parametrize("where", ["in", "in/below", "", "data", "data/models"])
def test_answers_lie_apart_from_what_is_read_and_kept(toml, tmp_path, where):
    config = toml(results(tmp_path, where))
    with pytest.raises(
        SettingsError, match=r"api.local_results: .*: this folder must be separate from"
    ):
        load({}, {}, config)


@pytest.mark.parametrize("where", ["out", "not-there"])
def test_where_answers_may_lie(toml, tmp_path, where):
    config = toml(results(tmp_path, where))
    assert load({}, {}, config).local_results == (tmp_path / where,)


def test_a_folder_for_answers_that_others_may_write_to(toml, tmp_path):
    config = toml(results(tmp_path, "out"))
    (tmp_path / "out").chmod(0o777)
    with pytest.raises(SettingsError, match=r"local_results: .*: other users can write"):
        load({}, {}, config)


TOPIC = "arn:aws:sns:us-east-1:000000000000:done"


@pytest.mark.parametrize("url", ["https://hooks.example/a?b=c", "http://127.0.0.1:9000/"])
def test_a_topic_has_a_webhook(toml, url):
    assert load({}, {}, toml(f'[api.topics]\n"{TOPIC}" = "{url}"\n')).topics == {TOPIC: url}


@pytest.mark.parametrize(
    ("topic", "url"),
    [
        (TOPIC, "http://hooks.example/"),
        (TOPIC, "https://me:secret@hooks.example/"),
        (TOPIC, "ftp://127.0.0.1/"),
        (TOPIC, "https:///a"),
        (TOPIC, "https://hooks.example:x/"),
        ("done", "https://hooks.example/"),
    ],
)
def test_what_is_no_topic_or_no_webhook(toml, topic, url):
    with pytest.raises(SettingsError, match=r"api.topics.*must be"):
        load({}, {}, toml(f'[api.topics]\n"{topic}" = "{url}"\n'))
