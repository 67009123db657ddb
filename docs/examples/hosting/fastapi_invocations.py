from fastapi import FastAPI, status, Request, Response

app = FastAPI()

async def model(request: Request) -> bytes:
    return (await request.body()).upper()

@app.post('/invocations')
async def invocations(request: Request):
    # model() is a hypothetical function that gets the inference output:
    model_resp = await model(request)

    response = Response(
        content=model_resp,
        status_code=status.HTTP_200_OK,
        media_type="text/plain",
    )
    return response
