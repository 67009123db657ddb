"""The model as its clients meet it, over a real connection. Run with: python -m pytest."""

from __future__ import annotations

import asyncio

from model import Chat

from partway.container.testing import serving


def test_an_answer_comes_word_by_word() -> None:
    async def fragments(prompt: str) -> list[str]:
        async with serving(Chat()) as served, served.stream() as client:
            await client.send(prompt)
            return [fragment async for fragment in client.recv_streaming(decode=True)]

    words = ["You said:", " hello", " out", " there", " (words: 3)"]
    assert asyncio.run(fragments("hello out there")) == words


def test_one_stream_takes_many_prompts() -> None:
    async def answers(*prompts: str) -> list[str]:
        async with serving(Chat()) as served, served.stream() as client:
            said = []
            for prompt in prompts:
                await client.send(prompt)
                said.append(await client.recv(decode=True))
            return said

    assert asyncio.run(answers("hello", "out there")) == [
        "You said: hello (words: 1)",
        "You said: out there (words: 2)",
    ]


def test_without_a_prompt_the_stream_ends_and_says_why() -> None:
    async def end() -> tuple[int | None, str | None]:
        async with serving(Chat()) as served, served.stream() as client:
            await client.send("")
            await client.wait_closed()
            return client.close_code, client.close_reason

    assert asyncio.run(end()) == (4400, "say something")


def test_an_invocation() -> None:
    async def reply(body: str) -> tuple[int, bytes]:
        async with serving(Chat()) as served:
            answer = await served.invoke(body, "text/plain")
            return answer.status, answer.body

    assert asyncio.run(reply("hello")) == (200, b"You said: hello (words: 1)")
    assert asyncio.run(reply("")) == (400, b"say something\n")
