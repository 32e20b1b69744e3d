# Build:  docker build -t kbengine .
# Use:    docker run --rm -v "$PWD/my-kb:/kb" kbengine query --kb /kb "Who wrote Pride and Prejudice?"
FROM python:3.11-slim-bookworm AS build

WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE CHANGELOG.md ./
COPY storage storage
COPY kbengine kbengine
COPY adapters adapters
COPY web web
RUN python -m venv /opt/kbengine \
    && /opt/kbengine/bin/python -m pip install --no-cache-dir --constraint constraints.txt .

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
    KBENGINE_KB=/kb
USER 10001:10001
VOLUME /kb
WORKDIR /kb

# Healthy: the environment is complete and, if /kb holds a knowledge base, its metadata can be read.
HEALTHCHECK --interval=60s --timeout=20s --start-period=10s --retries=3 \
    CMD test ! -e /kb/kb.sqlite || kbengine info --json > /dev/null

ENTRYPOINT ["kbengine"]
CMD ["--help"]
