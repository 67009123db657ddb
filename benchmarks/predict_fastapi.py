"""The model of predictions with FastAPI, as in its tutorial: ``python predict_fastapi.py PORT``."""

import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class PredictRequest(BaseModel):
    instances: list[list[float]]


class PredictResponse(BaseModel):
    predictions: list[float]


app = FastAPI()


@app.get("/ping")
def ping() -> dict[str, str]:
    return {}


@app.post("/v1/models/sums:predict")
def predict(request: PredictRequest) -> PredictResponse:
    return PredictResponse(predictions=[sum(each) for each in request.instances])


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=False)
