// What a program does that another one tells what to do: tests/interop/told.py says how.

import { createInterface } from "node:readline";

// Has a driver's asynchronous methods do what standard input asks for, until it ends.
export async function follow(driver) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, do: method, ...command } = JSON.parse(line);
    driver[method](command)
      .then((result) => ({ result: result ?? null }))
      .catch((error) => ({ error: { kind: error.name, text: String(error.message), cause: null } }))
      .then((answer) => console.log(JSON.stringify({ id, ...answer })));
  }
}
