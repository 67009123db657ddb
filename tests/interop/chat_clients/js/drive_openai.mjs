// OpenAI's client for JavaScript, told what to do. ../clients.py says what the commands mean.

import { readFile } from "node:fs/promises";
import OpenAI from "openai";
import { follow } from "./told.mjs";

const client = ({ base, key }) => new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
const asked = (at) => ({ model: at.model, max_tokens: at.most });
const question = (said) => ({ role: "user", content: said });
const usage = (counted) => counted ? [counted.prompt_tokens, counted.completion_tokens] : null;

const driver = {
  async version() {
    const found = new URL("./node_modules/openai/package.json", import.meta.url);
    return `openai for JavaScript ${JSON.parse(await readFile(found)).version}`;
  },

  async whole({ at, said, ...options }) {
    const answer = await client(at).chat.completions.create({
      ...asked(at), messages: [question(said)], ...options,
    });
    return { text: answer.choices[0].message.content, usage: usage(answer.usage) };
  },

  async stream({ at, said }) {
    const chunks = await client(at).chat.completions.create({
      ...asked(at),
      messages: [question(said)],
      stream: true,
      stream_options: { include_usage: true },
    });
    const pieces = [];
    let counted = null;
    for await (const chunk of chunks) {
      counted = usage(chunk.usage) ?? counted;
      pieces.push(...chunk.choices.map((each) => each.delta.content).filter(Boolean));
    }
    return { pieces, usage: counted };
  },

  async leave({ at, said }) {
    const chunks = await client(at).chat.completions.create({
      ...asked(at), messages: [question(said)], stream: true,
    });
    let heard = 0;
    for await (const chunk of chunks) {
      heard += chunk.choices[0]?.delta.content ? 1 : 0;
      if (heard === at.enough) break;
    }
    return heard;
  },

  async tool({ at, said, tool }) {
    const calls = [];
    const weather = {
      ...tool.function,
      parse: JSON.parse,
      function: (given) => {
        calls.push(["weather", given]);
        return "7 degrees";
      },
    };
    const running = client(at).chat.completions.runTools({
      ...asked(at), messages: [question(said)], tools: [{ type: "function", function: weather }],
    });
    return { text: await running.finalContent(), calls };
  },

  async schema({ at, said, schema }) {
    const format = { type: "json_schema", json_schema: { name: "weather", schema } };
    return (await driver.whole({ at, said, response_format: format })).text;
  },

  async embed({ at, texts }) {
    const answer = await client(at).embeddings.create({
      model: at.model, input: texts, encoding_format: "float",
    });
    return answer.data.map((each) => each.embedding);
  },
};

await follow(driver);
