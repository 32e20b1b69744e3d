# Build:  docker build -t kbengine .
#         The image holds PyTorch's build for processors. For NVIDIA cards, some gigabytes more:
#         docker build --build-arg PYTORCH_INDEX=https://download.pytorch.org/whl/cu126 -t kbengine .
# Keys:   docker run --rm -v "$PWD/my-kb:/kb" kbengine key create laptop --scope write
# Serve:  docker run --rm --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#             -v "$PWD/my-kb:/kb" -p 8080:8080 kbengine
# A cluster's searchers and services: docker build --build-arg EXTRAS='[cluster]' -t kbengine-cluster .
# The knowledge base must belong to user 10001 (chown -R 10001:10001 my-kb). Without a key the service does not start.
FROM python:3.11-slim-bookworm AS build

# A version with a local part such as 2.13.0+cpu is preferred to the same one without, which brings CUDA's packages.
ARG PYTORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=""

WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE CHANGELOG.md ./
COPY storage storage
COPY kbengine kbengine
COPY adapters adapters
COPY web web
RUN python -m venv /opt/kbengine \
    && /opt/kbengine/bin/python -m pip install --no-cache-dir --extra-index-url "$PYTORCH_INDEX" --constraint constraints.txt ".${EXTRAS}"

FROM python:3.11-slim-bookworm

LABEL org.opencontainers.image.title="kbengine" \
      org.opencontainers.image.licenses="Apache-2.0"

RUN groupadd --gid 10001 kbengine \
    && useradd --uid 10001 --gid kbengine --no-create-home --home-dir /kb --shell /usr/sbin/nologin kbengine \
    && mkdir /kb \
    && chown kbengine:kbengine /kb
COPY --from=build /opt/kbengine /opt/kbengine

ENV PATH=/opt/kbengine/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    KBENGINE_KB=/kb \
    NUMBA_CACHE_DIR=/tmp/kbengine
USER 10001:10001
VOLUME /kb
WORKDIR /kb
EXPOSE 8080
STOPSIGNAL SIGTERM

# The process answers. Whether it answers queries is for /readyz, which a load balancer asks.
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/livez', timeout=4)"]

ENTRYPOINT ["kbengine"]
CMD ["serve", "--host", "0.0.0.0", "--drain-s", "5"]
