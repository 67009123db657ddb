"""SageMaker's asynchronous requests: InvokeEndpointAsync."""
