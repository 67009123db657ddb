"""Custom resources: DeployedModel and Endpoint objects, as kubectl and its kin ask for them."""
