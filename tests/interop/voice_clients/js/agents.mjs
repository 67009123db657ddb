// OpenAI's agents over WebSocket: prints one JSON object of all that came.
//
// node agents.mjs URL KEY PCM: PCM is a file, mono at 24 kHz. The session's own key would be refused
// as no ephemeral one in a browser; in node it goes into the header.

import { readFileSync } from "node:fs";
import { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket } from "@openai/agents-realtime";

const [url, apiKey, pcm] = process.argv.slice(2);
const audio = readFileSync(pcm);
const chunk = 960; // bytes in 20 ms

const agent = new RealtimeAgent({ name: "assistant", instructions: "Answer briefly." });
const session = new RealtimeSession(agent, {
  transport: new OpenAIRealtimeWebSocket({ url }),
  model: "voice",
  config: {
    audio: {
      input: {
        format: { type: "audio/pcm", rate: 24000 },
        transcription: { model: "whisper-1" },
        turnDetection: { type: "server_vad", silenceDurationMs: 300 },
      },
      output: { format: { type: "audio/pcm", rate: 24000 } },
    },
  },
});

const told = { types: [], audio: 0, errors: [], interrupted: 0 };
session.on("error", (error) => told.errors.push(JSON.stringify(error.error ?? error)));
session.on("audio", (event) => (told.audio += event.data.byteLength));
session.on("audio_interrupted", () => (told.interrupted += 1));

function until(type, count = 1) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no ${type}: ${told.types}`)), 20000);
    session.transport.on("*", (event) => {
      if (event.type === type && --count === 0) {
        clearTimeout(late);
        resolve(event);
      }
    });
  });
}

function say() {
  for (let start = 0; start < audio.length; start += chunk) {
    session.sendAudio(new Uint8Array(audio.subarray(start, start + chunk)).buffer);
  }
}

session.transport.on("*", (event) => told.types.push(event.type));
await session.connect({ apiKey, url });

const speaking = until("response.output_audio.delta");
const over = until("response.done", 2);
say();
await speaking;
say(); // interrupts the answer
await over;

const typed = until("response.done");
session.sendMessage("hi");
await typed;

told.history = session.history.map((item) => [
  item.role,
  item.content?.map((part) => part.transcript ?? part.text ?? null),
]);
session.close();
console.log(JSON.stringify(told));
process.exit(0);
