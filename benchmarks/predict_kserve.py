"""The model of predictions on KServe's own server: ``python predict_kserve.py PORT``."""

import sys

from kserve import Model, ModelServer


class Sums(Model):
    def __init__(self):
        super().__init__("sums")
        self.ready = True

    def predict(self, payload, headers=None, response_headers=None):
        return {"predictions": [sum(each) for each in payload["instances"]]}


if __name__ == "__main__":
    ModelServer(http_port=int(sys.argv[1]), enable_grpc=False, access_log_format=None).start(
        [Sums()]
    )
