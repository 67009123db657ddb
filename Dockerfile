# A model container as the platform wants it: Partway's runtime, which serves echo until an author
# puts a model in (docs/how-to/build-an-image.md).
#   docker build -t partway .                 (--build-arg BASE=… for another base, such as one with CUDA)
#   docker run -p 8080:8080 partway serve
ARG BASE=python:3.11-slim
FROM ${BASE}

# Tells the platform that this image takes bidirectional streams.
LABEL com.amazonaws.sagemaker.capabilities.bidirectional-streaming=true

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

# The model's code goes here: the runtime looks for module:Class in the current directory.
WORKDIR /opt/program

EXPOSE 8080

# Exec form, so that SIGTERM reaches the server; the platform appends "serve". It runs as root,
# with no init before it: both are asked for by the hosting contract (clause 1.1-1).
ENTRYPOINT ["partway-container"]
CMD ["serve"]
