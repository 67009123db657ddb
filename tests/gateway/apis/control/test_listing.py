"""Lists: filters, order, pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.apis.aws_json.page_tokens import token_of
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.listing import Listed, page_of


def listed(name, created=0.0, modified=None, status=""):
    modified = created if modified is None else modified
    return Listed(name, created, modified, {"Name": name}, status)


def names(answer):
    return [each["Name"] for each in answer["Models"]]


def page(all_there, **members):
    return page_of("ListModels", "Models", all_there, members)


def whole(all_there, **members):
    """All pages, one after the other."""
    found = []
    for _ in range(len(all_there) + 1):
        answer = page(all_there, **members)
        found += names(answer)
        if "NextToken" not in answer:
            return found
        members["NextToken"] = answer["NextToken"]
    raise AssertionError(f"there are more pages than resources: {found}")


THREE = [listed("b", 1.0, 9.0, "A"), listed("A", 3.0, 7.0, "C"), listed("c", 2.0, 8.0, "B")]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, ["A", "c", "b"]),  # the latest first, as AWS has it
        ({"SortOrder": "Ascending"}, ["b", "c", "A"]),
        ({"SortBy": "Name"}, ["c", "b", "A"]),
        ({"SortBy": "Name", "SortOrder": "Ascending"}, ["A", "b", "c"]),
        ({"SortBy": "Status"}, ["A", "c", "b"]),
        ({"SortBy": "LastModifiedTime"}, ["b", "c", "A"]),
        ({"NameContains": "a"}, ["A"]),
        ({"NameContains": "x"}, []),
        ({"StatusEquals": "B"}, ["c"]),
        ({"CreationTimeAfter": 1.0}, ["A", "c"]),
        ({"CreationTimeBefore": 3}, ["c", "b"]),
        ({"CreationTimeAfter": 1.5, "CreationTimeBefore": 2.5}, ["c"]),
        ({"LastModifiedTimeAfter": 8}, ["b"]),
        ({"LastModifiedTimeBefore": 8}, ["A"]),
    ],
)
def test_filters_and_order(members, expected):
    assert names(page(THREE, **members)) == expected


def test_a_page_has_ten_unless_more_or_fewer_are_asked_for():
    many = [listed(f"m{number:02}", number) for number in range(25)]
    assert len(names(page(many))) == 10
    assert len(names(page(many, MaxResults=25))) == 25
    assert "NextToken" not in page(many, MaxResults=25)
    assert "NextToken" in page(many, MaxResults=24)


@given(
    st.lists(st.tuples(st.text("ab", min_size=1, max_size=4), st.integers(0, 3)), max_size=20),
    st.sampled_from(["Name", "CreationTime"]),
    st.sampled_from(["Ascending", "Descending"]),
    st.integers(1, 5),
)
def test_pages_have_each_once_in_order(drawn, sort, order, most):
    all_there = [listed(name, float(created)) for name, created in dict(drawn).items()]
    expected = names(page(all_there, SortBy=sort, SortOrder=order, MaxResults=100))
    assert whole(all_there, SortBy=sort, SortOrder=order, MaxResults=most) == expected


def test_what_comes_and_goes_between_two_pages_moves_no_others():
    there = [listed(name) for name in ("a", "b", "c", "d")]
    order = {"SortBy": "Name", "SortOrder": "Ascending"}
    first = page(there, MaxResults=2, **order)
    assert names(first) == ["a", "b"]
    changed = [listed("aa"), *there[:1], *there[2:]]
    second = page(changed, MaxResults=2, NextToken=first["NextToken"], **order)
    assert names(second) == ["c", "d"]


def test_a_token_is_for_the_same_list():
    token = page(THREE, MaxResults=1)["NextToken"]
    assert names(page(THREE, MaxResults=2, NextToken=token)) == ["c", "b"]
    for members in ({"SortBy": "Name"}, {"NameContains": "a"}, {"SortOrder": "Ascending"}):
        with pytest.raises(ValidationException, match="The NextToken is not valid"):
            page(THREE, NextToken=token, **members)
    with pytest.raises(ValidationException, match="The NextToken is not valid"):
        page_of("ListOthers", "Models", THREE, {"NextToken": token})


@pytest.mark.parametrize("position", [1, None, [], ["a", "b"], [1, 2], [1.0], [1, "a", "b"]])
def test_a_place_that_somebody_has_made_up_is_refused(position):
    asked_for = ["ListModels", {"NextToken": None, "MaxResults": None}]
    with pytest.raises(ValidationException, match="The NextToken is not valid"):
        page(THREE, NextToken=token_of(asked_for, position))
