// A container in JavaScript, on ws.

import http from "node:http";
import { WebSocketServer } from "ws";

if (process.argv[2] !== "serve") {
  console.error("usage: on_ws.mjs serve");
  process.exit(2);
}

const server = http.createServer((request, response) => {
  const path = request.url.split("?")[0];
  if (path === "/ping" && ["GET", "POST"].includes(request.method)) {
    response.end();
  } else if (path === "/invocations" && request.method === "POST") {
    request.pipe(response);
  } else {
    response.writeHead(404).end();
  }
});

const streams = new WebSocketServer({ noServer: true, maxPayload: 16 << 20 });
server.on("upgrade", (request, socket, head) => {
  if (request.url.split("?")[0] !== "/invocations-bidirectional-stream") {
    socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    return;
  }
  streams.handleUpgrade(request, socket, head, (stream) => {
    stream.on("error", (error) => console.error(error.message));
    stream.on("message", (message, isBinary) => stream.send(message, { binary: isBinary }));
  });
});

process.on("SIGTERM", () => {
  streams.clients.forEach((stream) => stream.close(1001, "the container stops"));
  server.close(() => process.exit(0));
  server.closeIdleConnections();
  setTimeout(() => streams.clients.forEach((stream) => stream.terminate()), 10_000).unref();
});

server.listen(Number(process.env.SAGEMAKER_BIND_TO_PORT ?? 8080));
