// Vercel's AI SDK, told what to do. ../clients.py says what the commands mean.

import { readFile } from "node:fs/promises";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  embedMany, generateText, jsonSchema, NoObjectGeneratedError, Output, stepCountIs, streamText, tool as toolOf,
} from "ai";
import { follow } from "./told.mjs";

const provider = ({ base, key }) =>
  createOpenAICompatible({
    name: "partway",
    baseURL: base,
    apiKey: key,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
const asked = (at, said) => ({
  model: provider(at)(at.model), prompt: said, maxRetries: 0, maxOutputTokens: at.most,
});
const usage = (counted) => [counted.inputTokens, counted.outputTokens];

const driver = {
  async version() {
    const found = new URL("./node_modules/ai/package.json", import.meta.url);
    return `Vercel AI SDK ${JSON.parse(await readFile(found)).version}`;
  },

  async whole({ at, said }) {
    const answer = await generateText(asked(at, said));
    return { text: answer.text, usage: usage(answer.usage) };
  },

  async stream({ at, said }) {
    let failure = null;
    const answer = streamText({ ...asked(at, said), onError: ({ error }) => (failure = error) });
    const pieces = [];
    for await (const piece of answer.textStream) pieces.push(piece);
    if (failure) throw failure;
    return { pieces, usage: usage(await answer.usage) };
  },

  async leave({ at, said }) {
    const leaving = new AbortController();
    const answer = streamText({ ...asked(at, said), abortSignal: leaving.signal });
    let heard = 0;
    for await (const piece of answer.textStream) {
      heard += piece ? 1 : 0;
      if (heard === at.enough) leaving.abort();
    }
    return heard;
  },

  async tool({ at, said, tool }) {
    const calls = [];
    const weather = toolOf({
      description: tool.function.description,
      inputSchema: jsonSchema(tool.function.parameters),
      execute: async (given) => {
        calls.push(["weather", given]);
        return "7 degrees";
      },
    });
    const answer = await generateText({
      ...asked(at, said), tools: { weather }, stopWhen: stepCountIs(3),
    });
    return { text: answer.text, calls };
  },

  async schema({ at, said, schema }) {
    try {
      const answer = await generateText({
        ...asked(at, said), output: Output.object({ schema: jsonSchema(schema) }),
      });
      return answer.output;
    } catch (error) {
      if (NoObjectGeneratedError.isInstance(error)) return error.text;
      throw error;
    }
  },

  async embed({ at, texts }) {
    const model = provider(at).textEmbeddingModel(at.model);
    return (await embedMany({ model, values: texts, maxRetries: 0 })).embeddings;
  },
};

await follow(driver);
