# cogstep with both backends, as the user `cogstep`:
#
#     docker build --tag cogstep .
#     docker run --rm cogstep run "What is 17 * 23?"
#     docker run --rm --interactive --tty --volume "$PWD:/work" --volume models:/models cogstep chat --model /models/qwen3-4b.gguf
#
# /work is the working directory, and /models holds model files and downloads between runs.

FROM python:3.12-slim-bookworm AS build

RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential cmake git ninja-build \
    && rm -rf /var/lib/apt/lists/*

# The image may run on another processor than the one that builds it, so no instruction of this one is assumed.
ENV CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON"

RUN python -m venv /opt/cogstep
WORKDIR /source

# llama.cpp is compiled in a layer of its own, which a change of the sources does not rebuild.
COPY pyproject.toml README.md LICENSE ./
RUN mkdir cogstep cognition runtime interpreters \
    && touch cogstep/__init__.py cognition/__init__.py runtime/__init__.py interpreters/__init__.py \
    && /opt/cogstep/bin/pip install --no-cache-dir '.[llama,mlx,hub,remote,mcp,sql]' \
    && /opt/cogstep/bin/pip uninstall --yes cogstep

COPY cogstep cogstep
COPY cognition cognition
COPY runtime runtime
COPY interpreters interpreters
RUN /opt/cogstep/bin/pip install --no-cache-dir --no-deps .


FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap libgomp1 ripgrep \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 cogstep \
    && install --directory --owner cogstep /work /models

COPY --from=build /opt/cogstep /opt/cogstep
ENV PATH="/opt/cogstep/bin:$PATH" HF_HOME=/models/huggingface PYTHONUNBUFFERED=1

USER cogstep
WORKDIR /work
VOLUME /models
HEALTHCHECK --interval=5m --timeout=60s CMD ["cogstep", "run", "What is 17 * 23?"]
ENTRYPOINT ["cogstep"]
CMD ["--help"]
