"""Amazon Resource Names of what this gateway has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arns:
    """Makes the names of one account in one region.

    Attributes:
        region: the region's name.
        account: the account's twelve digits.
    """

    region: str
    account: str

    def of(self, kind: str, name: str = "", service: str = "sagemaker") -> str:
        """The name of one resource: ``arn:aws:sagemaker:us-east-1:000000000000:endpoint/echo``.

        Args:
            kind: such as ``endpoint``; also that of resources that have no name.
            name: the resource's; SageMaker writes it in lower case.
            service: whose it is.
        """
        what = f"{kind}/{name.lower()}" if name else kind
        return f"arn:aws:{service}:{self.region}:{self.account}:{what}"

    def of_principal(self, name: str) -> str:
        """The name of somebody who asks, as STS has those whom IAM does not know itself.

        Args:
            name: of the principal.
        """
        return f"arn:aws:sts::{self.account}:federated-user/{name}"
