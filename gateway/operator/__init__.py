"""``partway operator``: Deployments and Services of a cluster for DeployedModels and Endpoints."""
