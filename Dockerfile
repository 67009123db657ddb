# The echo container: what a model container looks like to the platform.
#   docker build -t partway-echo .            (BASE=… for another base, such as one with CUDA)
#   docker run -p 8080:8080 partway-echo serve
ARG BASE=python:3.11-slim
FROM ${BASE}

# Tells the platform that this image takes bidirectional streams.
LABEL com.amazonaws.sagemaker.capabilities.bidirectional-streaming=true

COPY . /opt/partway
RUN pip install --no-cache-dir /opt/partway && rm -rf /opt/partway

EXPOSE 8080

# Exec form, so that SIGTERM reaches the server; the platform appends "serve". It runs as root,
# with no init before it: both are asked for by the hosting contract (clause 1.1-1).
ENTRYPOINT ["partway-container"]
CMD ["serve"]
