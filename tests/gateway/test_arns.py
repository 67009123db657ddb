"""Names of resources."""

from __future__ import annotations

from partway.gateway.arns import Arns

ARNS = Arns("eu-west-1", "123456789012")


def test_a_resources_name_is_in_lower_case_as_sagemaker_has_it():
    assert (
        ARNS.of("endpoint", "Echo-1") == "arn:aws:sagemaker:eu-west-1:123456789012:endpoint/echo-1"
    )


def test_a_kind_without_names_and_another_service():
    assert ARNS.of("log-group", service="logs") == "arn:aws:logs:eu-west-1:123456789012:log-group"


def test_who_asks_has_a_name_too():
    assert ARNS.of_principal("chat") == "arn:aws:sts::123456789012:federated-user/chat"
