# The two images: a model container as the platform wants it, and the gateway.
#   docker build -t partway .                               (docs/how-to/build-an-image.md)
#   docker build -t partway-gateway --target gateway .      (docs/how-to/run-in-containers.md)
# --build-arg BASE=… takes another base, such as one with CUDA.
ARG BASE=python:3.11-slim

FROM ${BASE} AS installed

# What a model prints is in the log at once. And nobody but pip manages this image's Python, which
# a base that has its distribution's would otherwise deny.
ENV PYTHONUNBUFFERED=1 PIP_BREAK_SYSTEM_PACKAGES=1

# Dependencies before the code, which changes more often: their layer is built once.
COPY pyproject.toml /opt/partway/
RUN python3 -c 'import tomllib; \
        project = tomllib.load(open("/opt/partway/pyproject.toml", "rb"))["project"]; \
        print(*project["dependencies"], sep="\n")' > /opt/partway/requirements.txt \
    && python3 -m pip install --no-cache-dir -r /opt/partway/requirements.txt
COPY . /opt/partway
RUN python3 -m pip install --no-cache-dir --no-deps /opt/partway


FROM installed AS gateway

# Reached from outside, it asks who clients are, or is told --insecure. Its local CA, if it needs
# one, lies in /var/lib/partway: a volume keeps it.
ENV PARTWAY_HOST=0.0.0.0 XDG_DATA_HOME=/var/lib
RUN install -d -m 700 -o 65532 -g 65532 /var/lib/partway
USER 65532:65532
WORKDIR /

EXPOSE 8090 8443

ENTRYPOINT ["partway"]
CMD ["serve"]


# The runtime, which serves echo until an author puts a model in. The last one, which is built unless
# another is asked for.
FROM installed AS container

# Tells the platform that this image takes bidirectional streams.
LABEL com.amazonaws.sagemaker.capabilities.bidirectional-streaming=true

# The model's code goes here: the runtime looks for module:Class in the current directory.
WORKDIR /opt/program

EXPOSE 8080

# Exec form, so that SIGTERM reaches the server; the platform appends "serve". It runs as root,
# with no init before it: both are asked for by the hosting contract (clause 1.1-1).
ENTRYPOINT ["partway-container"]
CMD ["serve"]
