"""Triton's client over HTTP, and KServe's, asking a gateway for all that they can: a program.

Its arguments are the gateway's host with port, and the names of three endpoints: one whose
container takes instances and gives them back as predictions, one whose container speaks the
protocol itself, and one that there is not. What does not come back as it was ends it.
"""

from __future__ import annotations

import asyncio
import sys

import httpx
import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

#: Every datatype that numpy has; each tensor has two instances of three elements.
ARRAYS = {
    **{
        kind: np.array([[0, 1, np.iinfo(kind).max], [np.iinfo(kind).min, 2, 3]], dtype=kind)
        for kind in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
    },
    **{
        kind: np.array([[0.5, -1.25, 0.1], [np.finfo(kind).max, 2, 3]], dtype=kind)
        for kind in ("float16", "float32", "float64")
    },
    "bool": np.array([[True, False, True], [False, False, True]]),
    "text": np.array([[b"a", "é".encode(), b""], [b"x:y", b'"', b"\\"]], dtype=np.object_),
    "image_bytes": np.array([[b"\xff\xd8", b"", b"a"], [b"\0", b"b", b"c"]], dtype=np.object_),
}


def given(name: str, array: np.ndarray, *, binary: bool) -> triton.InferInput:
    datatype = "BYTES" if array.dtype == np.object_ else np_to_triton_dtype(array.dtype)
    made = triton.InferInput(name, list(array.shape), datatype)
    return made.set_data_from_numpy(array, binary_data=binary)


def wanted(name: str, *, binary: bool) -> triton.InferRequestedOutput:
    return triton.InferRequestedOutput(name, binary_data=binary)


def check(found: np.ndarray, array: np.ndarray, what: str) -> None:
    assert found.shape == array.shape, (what, found.shape)
    if array.dtype == np.object_:
        texts = [each if isinstance(each, bytes) else each.encode() for each in found.flatten()]
        assert texts == array.flatten().tolist(), (what, found)
    else:
        assert np.array_equal(found.astype(array.dtype), array), (what, found)


def of_triton(host: str, echo: str, unknown: str) -> None:
    """Its client for one thread."""
    with triton.InferenceServerClient(host) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(echo)
        assert client.is_model_ready(echo, "1")
        assert not client.is_model_ready(unknown)
        assert client.get_server_metadata()["name"] == "partway"
        print(client.get_model_metadata(echo))
        for name, array in ARRAYS.items():
            for binary in (True, False):
                if not binary and name in ("float16", "image_bytes"):
                    continue  # JSON has no form of the one, and Triton's client none of the other
                for outputs in (None, [wanted(name, binary=binary)]):
                    answer = client.infer(
                        echo, [given(name, array, binary=binary)], outputs=outputs, request_id="7"
                    )
                    output = name if outputs else "output-0"
                    check(answer.as_numpy(output), array, f"{name} {binary} {outputs}")
                    assert answer.get_response()["id"] == "7"
                    assert answer.get_response()["model_name"] == echo
        print("each datatype, as JSON and as binary data")
        both = [given(name, ARRAYS[name], binary=name == "text") for name in ("text", "int8")]
        answer = client.infer(
            echo, both, "1", [wanted("int8", binary=False), wanted("text", binary=True)]
        )
        check(answer.as_numpy("text"), ARRAYS["text"], "text of two")
        check(answer.as_numpy("int8"), ARRAYS["int8"], "int8 of two")
        many = np.arange(4000, dtype=np.float32).reshape(1000, 4)
        for coding in ("gzip", "deflate"):
            answer = client.infer(
                echo,
                [given("a", many, binary=True)],
                request_compression_algorithm=coding,
                response_compression_algorithm=coding,
            )
            check(answer.as_numpy("output-0"), many, coding)
        print("packed by gzip and deflate")
        waiting = client.async_infer(echo, [given("a", many, binary=True)])
        check(waiting.get_result().as_numpy("output-0"), many, "async_infer")
        for name, outputs in ((unknown, None), (echo, [wanted("a", binary=True)] * 2)):
            try:
                client.infer(name, [given("a", many, binary=True)], outputs=outputs)
            except InferenceServerException as error:
                print(error.status(), error.message())


async def of_triton_aio(host: str, echo: str, unknown: str) -> None:
    """Its client for asyncio."""
    async with triton_aio.InferenceServerClient(host) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready(echo)
        assert not await client.is_model_ready(unknown)
        assert (await client.get_server_metadata())["name"] == "partway"
        assert (await client.get_model_metadata(echo))["name"] == echo
        many = np.arange(4000, dtype=np.float64).reshape(1000, 4)
        for coding in (None, "gzip", "deflate"):
            for binary in (True, False):
                answer = await client.infer(
                    echo,
                    [given("a", many, binary=binary)],
                    request_compression_algorithm=coding,
                    response_compression_algorithm=coding,
                )
                check(answer.as_numpy("output-0"), many, f"aio {coding} {binary}")
        try:
            await client.infer(unknown, [given("a", many, binary=True)])
        except InferenceServerException as error:
            print("aio", error.status(), error.message())


async def of_kserve(host: str, echo: str, unknown: str) -> None:
    """KServe's client, by both versions of its protocol."""
    url = f"http://{host}"
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        assert await client.is_server_live(url)
        assert await client.is_server_ready(url)
        assert await client.is_model_ready(url, echo)
        assert not await client.is_model_ready(url, unknown)
        for name, array in ARRAYS.items():
            if name == "image_bytes":
                continue  # of BYTES it reads UTF-8 alone, whoever has answered
            for binary in (True, False):
                if not binary and name == "float16":
                    continue
                datatype = "BYTES" if array.dtype == np.object_ else np_to_triton_dtype(array.dtype)
                tensor = InferInput(name, list(array.shape), datatype)
                tensor.set_data_from_numpy(array, binary_data=binary)
                request = InferRequest(echo, [tensor], parameters={"binary_data_output": True})
                answer = await client.infer(url, request, model_name=echo)
                (output,) = answer.outputs
                found = np.array(output.data, array.dtype).reshape(output.shape)
                check(found, array, f"kserve {name} {binary}")
        print("kserve v2")
        try:
            await client.infer(url, InferRequest(unknown, [tensor]), model_name=unknown)
        except httpx.HTTPStatusError as error:
            print(str(error).partition(" for url")[0])
    async with InferenceRESTClient(RESTConfig(protocol="v1")) as client:
        assert await client.is_server_live(url)
        assert await client.is_model_ready(url, echo)
        print(await client.infer(url, {"instances": [[1, 2], [3, 4]]}, model_name=echo))
        try:
            await client.infer(url, {"instances": []}, model_name=echo)
        except httpx.HTTPStatusError as error:
            print(str(error).partition(" for url")[0])


async def straight(host: str, name: str) -> None:
    """Both clients, where the container is KServe's own server."""
    url, array = f"http://{host}", np.arange(6, dtype=np.float32).reshape(2, 3)
    async with triton_aio.InferenceServerClient(host) as client:
        for binary in (True, False):  # JSON it sends as octets, which KServe's server does not read
            answer = await client.infer(
                name,
                [given("a", array, binary=True)],
                outputs=[wanted("a", binary=binary)],
                request_id="7",
            )
            check(answer.as_numpy("a"), array, f"straight {binary}")
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        tensor = InferInput("a", [2, 3], "FP32")
        tensor.set_data_from_numpy(array)
        answer = await client.infer(url, InferRequest(name, [tensor]), model_name=name)
        print("straight", answer.model_name, answer.outputs[0].data)


def main() -> None:
    host, echo, speaking, unknown = sys.argv[1:]
    of_triton(host, echo, unknown)
    asyncio.run(of_triton_aio(host, echo, unknown))
    asyncio.run(of_kserve(host, echo, unknown))
    asyncio.run(straight(host, speaking))


if __name__ == "__main__":
    main()
