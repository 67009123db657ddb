"""partway.gateway.fleet.launchers.engine_image: what keeps an image from being started."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.launchers.engine_image import (
    LABEL,
    ImageConfiguration,
    image_configuration,
    why_not_started,
    why_vertex_not_started,
)

GOOD = {"Entrypoint": ["python", "/app.py"], "Labels": {LABEL: "true"}}


@pytest.mark.clause("1.1-1", "1.1-4")
def test_an_image_that_can_be_started():
    assert why_not_started(image_configuration(GOOD)) == ""
    assert why_not_started(image_configuration({**GOOD, "Entrypoint": ["bash", "/run.sh"]})) == ""


@pytest.mark.clause("1.1-1")
@pytest.mark.parametrize(
    ("entrypoint", "what"),
    [
        (None, "there is no ENTRYPOINT"),
        ([], "there is no ENTRYPOINT"),
        (["/bin/sh", "-c", "python app.py"], "the ENTRYPOINT runs a shell"),
        (["bash", "-lc", "python app.py"], "the ENTRYPOINT runs a shell"),
    ],
)
def test_an_entry_point_that_would_not_get_serve(entrypoint, what):
    said = why_not_started(image_configuration({**GOOD, "Entrypoint": entrypoint}))
    assert what in said
    assert said.endswith(
        '; write ENTRYPOINT ["program", "argument"] in the Dockerfile: a list, in double quotes'
    )


@pytest.mark.clause("1.1-4")
@pytest.mark.parametrize(
    ("labels", "what"),
    [
        (None, f"there is no label {LABEL}"),
        ({"other": "true"}, f"there is no label {LABEL}"),
        ({LABEL: "True"}, f"the label {LABEL} is 'True', not 'true'"),
        ({LABEL: ""}, f"the label {LABEL} is '', not 'true'"),
    ],
)
def test_a_label_that_is_not_there(labels, what):
    said = why_not_started(image_configuration({**GOOD, "Labels": labels}))
    assert said == f"{what}; add to the Dockerfile: LABEL {LABEL}=true"


def test_vertex_ai_starts_an_image_by_its_own_words():
    for each in ({"Entrypoint": ["/bin/sh", "-c", "python app.py"]}, {"Cmd": ["python", "app.py"]}):
        assert why_vertex_not_started(image_configuration(each)) == ""
    said = why_vertex_not_started(image_configuration(GOOD | {"Entrypoint": None}))
    assert said.startswith("there is neither ENTRYPOINT nor CMD for Vertex AI to start; wri")


def test_what_is_not_there_is_empty():
    assert image_configuration({}) == ImageConfiguration()


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"Entrypoint": "python"}, "Entrypoint in the image's configuration must be a list"),
        ({"Labels": []}, "Labels in the image's configuration must be an object"),
        ({"User": 0}, "User in the image's configuration must be a string"),
    ],
)
def test_members_of_another_kind(members, what):
    with pytest.raises(ValueError, match=what):
        image_configuration(members)


def test_what_a_message_repeats_is_short():
    image = ImageConfiguration(entrypoint=("sh", "-c", "x" * 10_000))
    assert len(why_not_started(image)) < 600
