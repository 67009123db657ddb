from starlette.responses import StreamingResponse
from fastapi import FastAPI, status, Request

app = FastAPI()

async def model(request: Request) -> bytes:
    return (await request.body()).upper()

@app.post('/invocations')
async def invocations(request: Request):
    await request.body()  # here: while it streams, StreamingResponse takes what comes
    # Streams inference response using HTTP chunked encoding
    async def generate():
        # model() is a hypothetical function that gets the inference output:
        yield await model(request)
        yield "\n"

    response = StreamingResponse(
        content=generate(),
        status_code=status.HTTP_200_OK,
        media_type="text/plain",
    )
    return response
