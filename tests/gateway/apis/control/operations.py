"""What the tests of shapes and validation ask about: all operations that deploy and describe."""

from __future__ import annotations

OPERATIONS = (
    "CreateModel", "DescribeModel", "ListModels", "DeleteModel",
    "CreateEndpointConfig", "DescribeEndpointConfig", "ListEndpointConfigs", "DeleteEndpointConfig",
    "CreateEndpoint", "DescribeEndpoint", "ListEndpoints", "UpdateEndpoint", "DeleteEndpoint",
    "UpdateEndpointWeightsAndCapacities",
    "AddTags", "ListTags", "DeleteTags",
)  # fmt: skip
