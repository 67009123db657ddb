"""Amazon Resource Names of the gateway's resources."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arns:
    """Makes the ARNs of one account in one region.

    Attributes:
        account: the account's twelve digits.
    """

    region: str
    account: str

    def of(self, kind: str, name: str = "", service: str = "sagemaker") -> str:
        """Return the ARN of a resource: ``arn:aws:sagemaker:us-east-1:000000000000:endpoint/echo``.

        Args:
            kind: such as ``endpoint``; also for resources without a name.
            name: the resource's; SageMaker writes it in lower case.
            service: the resource's service.
        """
        what = f"{kind}/{name.lower()}" if name else kind
        return f"arn:aws:{service}:{self.region}:{self.account}:{what}"

    def of_principal(self, name: str) -> str:
        """Return the ARN of a principal, in STS's form for users that IAM does not know."""
        return f"arn:aws:sts::{self.account}:federated-user/{name}"
