// An SDK client that does what it is told on stdin and tells what it sees on stdout, as JSON lines.
//
//   node client.mjs '{"endpoint": "http://127.0.0.1:8090", "secret": "…", …}'
//
// Orders:  {"do": "open", "stream": 1, "input": {"EndpointName": "model", …}}
//          {"do": "send", "stream": 1, "parts": [{"text" | "base64": "…", "DataType": "UTF8", …}]}
//          {"do": "send", "stream": 1, "parts": [{"fill": 97, "size": 524288}]}
//          {"do": "end", "stream": 1}      the input is over
//          {"do": "break", "stream": 1}    `break` out of the loop over the response, at the next part
//          {"do": "abort", "stream": 1}    the AbortController's way
//          {"do": "quit"}
// News:    {"stream": 1, "sent": 3}        parts that the SDK has asked for so far
//          {"stream": 1, "opened": {…}}    send() has resolved, with the output's members
//          {"stream": 1, "part": {"Bytes": "base64", "DataType": …, "CompletionState": …}}
//          {"stream": 1, "leaving": true}  "break" has been heard
//          {"stream": 1, "end": true}      the response is over
//          {"stream": 1, "error": {"name": …, "message": …, "status": …, …}}
// Parts over 64 KiB come as {"size": …, "sha256": …} in place of Bytes.

import { createHash } from "node:crypto";
import { createInterface } from "node:readline";

import { client as makeClient, InvokeEndpointWithBidirectionalStreamCommand } from "./operation.mjs";

const options = JSON.parse(process.argv[2]);
if (options.clock_ahead_ms) {
  const honest = Date.now;
  Date.now = () => honest() + options.clock_ahead_ms; // the SDK's clock
}
const client = makeClient({
  endpoint: options.endpoint,
  region: options.region ?? "us-east-1",
  credentials: {
    accessKeyId: options.key_id,
    secretAccessKey: options.secret,
    ...(options.token && { sessionToken: options.token }),
  },
});

const tell = (news) => process.stdout.write(`${JSON.stringify(news)}\n`);

/** What a test asks a part to be, as the SDK wants it. */
const part = ({ text, base64, fill, size, ...members }) => ({
  ...members,
  Bytes:
    text !== undefined
      ? Buffer.from(text, "utf8")
      : base64 !== undefined
        ? Buffer.from(base64, "base64")
        : Buffer.alloc(size ?? 0, fill ?? 0),
});

const shown = ({ Bytes, ...members }) => {
  if (Bytes.length <= 65536) return { ...members, Bytes: Buffer.from(Bytes).toString("base64") };
  const sha256 = createHash("sha256").update(Bytes).digest("hex");
  return { ...members, size: Bytes.length, sha256 };
};

const membersOf = ({ $metadata, $fault, $response, name, message, stack, ...members }) => members;

class Stream {
  constructor(id, input) {
    this.id = id;
    this.input = input;
    this.queue = [];
    this.aborting = new AbortController();
    this.breaking = false;
    this.more = () => {};
  }

  push(item) {
    this.queue.push(item);
    this.more();
  }

  async *parts() {
    for (let sent = 0; ; ) {
      while (this.queue.length === 0) await new Promise((resolve) => (this.more = resolve));
      const item = this.queue.shift();
      if (item === null) return;
      yield { PayloadPart: part(item) };
      tell({ stream: this.id, sent: ++sent });
    }
  }

  async run() {
    try {
      const command = new InvokeEndpointWithBidirectionalStreamCommand({
        ...this.input,
        Body: this.parts(),
      });
      const { Body, $metadata, ...output } = await client.send(command, {
        abortSignal: this.aborting.signal,
      });
      const { httpStatusCode, requestId } = $metadata;
      tell({ stream: this.id, opened: { ...output, status: httpStatusCode, requestId } });
      for await (const event of Body) {
        tell({ stream: this.id, part: shown(event.PayloadPart) });
        if (this.breaking) break;
      }
      tell({ stream: this.id, end: true });
    } catch (error) {
      const { name, message, $fault, $metadata } = error;
      const status = $metadata?.httpStatusCode;
      tell({ stream: this.id, error: { ...membersOf(error), name, message, $fault, status } });
    }
  }
}

const streams = new Map();
const orders = {
  open({ stream, input }) {
    streams.set(stream, new Stream(stream, input));
    streams.get(stream).run();
  },
  send({ stream, parts }) {
    for (const item of parts) streams.get(stream).push(item);
  },
  end: ({ stream }) => streams.get(stream).push(null),
  break({ stream }) {
    streams.get(stream).breaking = true;
    tell({ stream, leaving: true });
  },
  abort: ({ stream }) => streams.get(stream).aborting.abort(),
  quit() {
    client.destroy();
    process.exit(0);
  },
};

tell({ ready: process.version });
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  orders[order.do](order);
}
