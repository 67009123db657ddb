"""SageMaker's runtime API: InvokeEndpoint and InvokeEndpointWithResponseStream."""
