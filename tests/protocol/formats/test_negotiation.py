"""What a client wants its answer in."""

from __future__ import annotations

import pytest

from partway.protocol.formats.faults import NotAcceptable
from partway.protocol.formats.negotiation import MediaType, accepted, media_type, preferred

OFFERED = ("application/json", "application/jsonlines", "text/csv")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("text/csv", MediaType("text/csv", {})),
        (" Text/CSV ; Label_Size=0", MediaType("text/csv", {"label_size": "0"})),
        (
            'application/JSON;charset="UTF-8";',
            MediaType("application/json", {"charset": "UTF-8"}),
        ),
        ('text/csv; a="b;c,d"', MediaType("text/csv", {"a": "b;c,d"})),
        ("", MediaType("", {})),
        ("csv; label_size=0", MediaType("csv", {})),
    ],
)
def test_one_media_type(text: str, read: MediaType) -> None:
    assert media_type(text) == read


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ([], "application/json"),
        ([""], "application/json"),
        (["*/*"], "application/json"),
        (["application/*"], "application/json"),
        (["text/*"], "text/csv"),
        (["TEXT/CSV"], "text/csv"),
        (["application/jsonlines"], "application/jsonlines"),
        (["application/jsonlines; verbose=true"], "application/jsonlines"),
        (["text/csv, application/json"], "text/csv"),
        (["text/csv;q=0.5, application/json"], "application/json"),
        (["text/csv; q=0.5, application/json;q=0.501"], "application/json"),
        (["text/html", "text/csv"], "text/csv"),
        (["text/html, */*;q=0.1"], "application/json"),
        (["application/json;q=0, */*"], "application/jsonlines"),
        (["text/csv;q=0.1, text/*"], "text/csv"),
        (["text/*;q=0, */*;q=0.1"], "application/json"),
        (['text/html; a="b,text/csv", application/jsonlines'], "application/jsonlines"),
        (["application/json;Q=0, text/csv"], "text/csv"),
        (["image/png"], None),
        (["application/json;q=0"], None),
        (["application/json;q=nan"], None),
        (["application/json;q=2"], None),
        (["application/x-recordio-protobuf"], None),
    ],
)
def test_the_preferred_one(accept: list[str], chosen: str | None) -> None:
    assert preferred(accept, OFFERED) == chosen


def test_who_accepts_nothing_of_it_is_told_what_there_is() -> None:
    assert accepted(["text/csv"], OFFERED) == "text/csv"
    with pytest.raises(NotAcceptable, match=", ".join(OFFERED)) as caught:
        accepted(["image/png", "text/html;q=1"], OFFERED)
    assert caught.value.status == 406
    assert caught.value.reason.startswith("Accept: 'image/png, text/html;q=1' was given; it must")
