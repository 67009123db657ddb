"""KServe's own server with a model whose output is its input: a program; its argument is a port."""

from __future__ import annotations

import sys

from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer


class Echo(Model):
    """Answers with the tensor that it is asked with, of the same name."""

    def __init__(self) -> None:
        super().__init__("its-own")
        self.ready = True

    def predict(self, payload: InferRequest, headers=None, response_headers=None) -> InferResponse:
        outputs = []
        for each in payload.inputs:
            output = InferOutput(each.name, each.shape, each.datatype)
            output.set_data_from_numpy(each.as_numpy(), binary_data=False)
            outputs.append(output)
        return InferResponse(
            payload.id, self.name, outputs, requested_outputs=payload.request_outputs
        )


if __name__ == "__main__":
    ModelServer(http_port=int(sys.argv[1]), enable_grpc=False, workers=1).start([Echo()])
