"""LangChain, told what to do: ``ChatOpenAI`` and two clients of InvokeEndpoint."""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import json
from contextlib import aclosing
from typing import Any

from langchain_aws.chat_models.sagemaker_endpoint import (
    ChatModelContentHandler,
    ChatSagemakerEndpoint,
)
from langchain_aws.llms.sagemaker_endpoint import LLMContentHandler, SagemakerEndpoint
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from told import follow


class ChatHandler(ChatModelContentHandler):
    """The handler that LangChain asks its users to write, for a chat completion."""

    content_type = "application/json"
    accepts = "application/json"

    def transform_input(self, prompt: Any, model_kwargs: dict[str, Any]) -> bytes:
        return json.dumps({"messages": prompt, **model_kwargs}).encode()

    def transform_output(self, output: Any) -> Any:
        if hasattr(output, "read"):
            answer = json.loads(output.read())
            return AIMessage(
                answer["choices"][0]["message"]["content"], usage_metadata=counts(answer)
            )
        event = event_of(output)
        if not event:
            return AIMessageChunk("")
        if not event["choices"]:
            return AIMessageChunk("", usage_metadata=counts(event))
        return AIMessageChunk(event["choices"][0]["delta"].get("content") or "")


class InputsHandler(LLMContentHandler):
    """The same, for a container that takes ``inputs``."""

    content_type = "application/json"
    accepts = "application/json"

    def transform_input(self, prompt: str, model_kwargs: dict[str, Any]) -> bytes:
        return json.dumps({"inputs": prompt, **model_kwargs}).encode()

    def transform_output(self, output: Any) -> str:
        if hasattr(output, "read"):
            return json.loads(output.read())[0]["generated_text"]
        event = event_of(output)
        return event["token"]["text"] if event else ""


def event_of(line: bytes) -> Any:
    """The value of a line of server-sent events; None for one without."""
    data = line.decode().removeprefix("data:").strip()
    if not line.startswith(b"data:") or data == "[DONE]":
        return None
    event = json.loads(data)
    if "error" in event:
        raise RuntimeError(event["error"]["message"])
    return event


def counts(answer: Any) -> Any:
    usage = answer["usage"]
    return {
        "input_tokens": usage["prompt_tokens"],
        "output_tokens": usage["completion_tokens"],
        "total_tokens": usage["total_tokens"],
    }


def model(at: dict[str, Any], *, streamed: bool) -> Any:
    if at["client"] == "ChatOpenAI":
        return ChatOpenAI(
            base_url=at["base"],
            api_key=at["key"],
            model=at["model"],
            max_retries=0,
            stream_usage=True,
            max_tokens=at["most"],
        )
    is_chat = at["client"] == "ChatSagemakerEndpoint"
    most = {"max_tokens": at["most"]} if is_chat else {"parameters": {"max_new_tokens": at["most"]}}
    more: dict[str, Any] = {**most, "stream": streamed}
    if streamed and is_chat:
        more["stream_options"] = {"include_usage": True}
    members = {"endpoint_name": at["endpoint"], "region_name": "us-east-1", "model_kwargs": more}
    if is_chat:
        return ChatSagemakerEndpoint(
            **members, base_url=at["gateway"], content_handler=ChatHandler()
        )
    return SagemakerEndpoint(**members, endpoint_url=at["gateway"], content_handler=InputsHandler())


class Driver:
    async def version(self) -> str:
        names = ("langchain-openai", "langchain-aws")
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)

    async def whole(
        self, at: dict[str, Any], said: str, messages: Any = None, **options: Any
    ) -> dict[str, Any]:
        answer = await model(at, streamed=False).ainvoke(messages or said, **options)
        return {"text": text_of(answer), "usage": usage(answer)}

    async def stream(self, at: dict[str, Any], said: str) -> dict[str, Any]:
        pieces, counted = [], None
        async for chunk in model(at, streamed=True).astream(said):
            pieces += [text for text in [text_of(chunk)] if text]
            counted = usage(chunk) or counted
        return {"pieces": pieces, "usage": counted}

    async def leave(self, at: dict[str, Any], said: str) -> int:
        if at["client"] == "ChatOpenAI":
            heard = 0
            async with aclosing(model(at, streamed=True).astream(said)) as chunks:
                async for chunk in chunks:
                    heard += bool(text_of(chunk))
                    if heard == at["enough"]:
                        break
            return heard
        return await asyncio.to_thread(self._leave, at, said)

    def _leave(self, at: dict[str, Any], said: str) -> int:
        heard = 0
        chunks = model(at, streamed=True).stream(said)
        for chunk in chunks:
            heard += bool(text_of(chunk))
            if heard == at["enough"]:
                break
        chunks.close()
        gc.collect()  # LangChain leaves boto3's stream open until then
        return heard

    async def tool(self, at: dict[str, Any], said: str, tool: Any) -> dict[str, Any]:
        asked = model(at, streamed=False).bind_tools([tool])
        reply = await asked.ainvoke(said)
        if not reply.tool_calls:
            return {"calls": [], "text": text_of(reply)}
        call = reply.tool_calls[0]
        result = ToolMessage("7 degrees", tool_call_id=call["id"])
        answer = await asked.ainvoke([("user", said), reply, result])
        return {"calls": [[call["name"], call["args"]]], "text": text_of(answer)}

    async def schema(self, at: dict[str, Any], said: str, schema: Any) -> Any:
        wanted = {"title": "weather", **schema}
        asked = model(at, streamed=False).with_structured_output(wanted, method="json_schema")
        try:
            return await asked.ainvoke(said)
        except OutputParserException as error:
            return error.llm_output

    async def embed(self, at: dict[str, Any], texts: list[str]) -> list[list[float]]:
        embeddings = OpenAIEmbeddings(
            base_url=at["base"],
            api_key=at["key"],
            model=at["model"],
            max_retries=0,
            check_embedding_ctx_length=False,
        )
        return await embeddings.aembed_documents(texts)


def text_of(answer: Any) -> str:
    return answer if isinstance(answer, str) else str(answer.content)


def usage(answer: Any) -> list[int] | None:
    counted = getattr(answer, "usage_metadata", None)
    return counted and [counted["input_tokens"], counted["output_tokens"]]


asyncio.run(follow(Driver()))
