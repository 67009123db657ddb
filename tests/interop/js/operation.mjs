// InvokeEndpointWithBidirectionalStream for an SDK client that is not SageMaker's.
//
// AWS generates `@aws-sdk/client-sagemaker-runtime-http2` from its model, and npm does not have it.
// What a generated client adds to the SDK is data: the shapes below, after the published model
// (sections 2.1, 2.3 and 4 of the contract). All that acts is the SDK's own: its serializers, signers,
// event streams and HTTP/2 handler, in bedrock-runtime's client, which streams both ways too.

import { BedrockRuntimeClient } from "@aws-sdk/client-bedrock-runtime";
import { getEventStreamPlugin } from "@aws-sdk/middleware-eventstream";
import { makeBuilder, ServiceException } from "@smithy/core/client";
import { getEndpointPlugin } from "@smithy/core/endpoints";
import { TypeRegistry } from "@smithy/core/schema";

const NAMESPACE = "com.amazonaws.sagemakerruntimehttp2";

// How the SDK writes schemas: the kind of shape, or that of a member, as a number.
const STRING = 0;
const INTEGER = 1;
const BLOB = 21;
const STRUCTURE = 3;
const UNION = 4;
const OPERATION = 9;
const ERROR = -3;

const structure = (name, members, required = 0) => [
  STRUCTURE, NAMESPACE, name, 0, Object.keys(members), Object.values(members), required,
];
const events = (name, members) => [
  UNION, NAMESPACE, name, { streaming: 1 }, Object.keys(members), Object.values(members),
];

// --- Errors ---------------------------------------------------------------------------------------

const registry = TypeRegistry.for(NAMESPACE);

const error = (name, fault, members, status) => {
  const traits = status === undefined ? { error: fault } : { error: fault, httpError: status };
  const schema = [ERROR, NAMESPACE, name, traits, Object.keys(members), Object.values(members)];
  const type = class extends ServiceException {
    constructor(options) {
      super({ name, $fault: fault, ...options });
    }
  };
  registry.registerError(schema, type);
  return schema;
};

const said = { Message: STRING };
const coded = { ...said, ErrorCode: STRING };
const ModelStreamError = error("ModelStreamError", "client", coded);
const InternalStreamFailure = error("InternalStreamFailure", "server", said);
error("InputValidationError", "client", coded, 400);
error("InternalServerError", "server", coded, 500);
error("ServiceUnavailableError", "server", coded, 503);
error("ModelError", "client", {
  ...said,
  OriginalStatusCode: INTEGER,
  OriginalMessage: STRING,
  LogStreamArn: STRING,
  ErrorCode: STRING,
}, 424);

// --- The operation --------------------------------------------------------------------------------

const inHeader = [STRING, { eventHeader: 1 }];
const part = {
  Bytes: [[STRING, NAMESPACE, "SensitiveBlob", 8, BLOB], { eventPayload: 1 }],
  DataType: inHeader,
  CompletionState: inHeader,
  P: inHeader,
};
const requestEvents = events("RequestStreamEvent", {
  PayloadPart: [structure("RequestPayloadPart", part), 0],
});
const responseEvents = events("ResponseStreamEvent", {
  PayloadPart: [structure("ResponsePayloadPart", part), 0],
  ModelStreamError: [ModelStreamError, 0],
  InternalStreamFailure: [InternalStreamFailure, 0],
});
const header = (httpHeader) => [STRING, { httpHeader }];
const NAME = "InvokeEndpointWithBidirectionalStream";
const operation = [
  OPERATION,
  NAMESPACE,
  NAME,
  { http: ["POST", "/endpoints/{EndpointName}/invocations-bidirectional-stream", 200] },
  structure(`${NAME}Input`, {
    EndpointName: [STRING, 1], // in the path
    Body: [requestEvents, 16], // the payload
    TargetVariant: header("X-Amzn-SageMaker-Target-Variant"),
    ModelInvocationPath: header("X-Amzn-SageMaker-Model-Invocation-Path"),
    ModelQueryString: header("X-Amzn-SageMaker-Model-Query-String"),
  }, 2),
  structure(`${NAME}Output`, {
    Body: [responseEvents, 16],
    InvokedProductionVariant: header("X-Amzn-Invoked-Production-Variant"),
  }, 1),
];

const endpointParameters = {
  UseFIPS: { type: "builtInParams", name: "useFipsEndpoint" },
  Endpoint: { type: "builtInParams", name: "endpoint" },
  Region: { type: "builtInParams", name: "region" },
  UseDualStack: { type: "builtInParams", name: "useDualstackEndpoint" },
};
const service = "AmazonSageMakerRuntimeHttp2";
const command = makeBuilder(endpointParameters, service, "Client", getEndpointPlugin);

export const InvokeEndpointWithBidirectionalStreamCommand = command(
  {},
  (Command, stack, config) => [getEventStreamPlugin(config)],
  NAME,
  operation,
);

// --- The client -----------------------------------------------------------------------------------

/** `new SageMakerRuntimeHTTP2Client(configuration)`, as near as can be. */
export const client = (configuration) =>
  new BedrockRuntimeClient({
    serviceId: "SageMaker Runtime HTTP2",
    signingName: "sagemaker",
    protocolSettings: {
      defaultNamespace: NAMESPACE,
      errorTypeRegistries: [registry],
      version: "2025-10-01",
      serviceTarget: service,
    },
    ...configuration,
  });
