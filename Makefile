# Two commands on a fresh machine: `make demo` and `make test`. Both set up their own virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO_KB ?= demo-kb

# Optional extras with a suite of tests in tests/integrations/NAME, each in an environment of its own, .venv-NAME.
EXTRAS := benchmarks calibration cluster datasette densephrases documents fuzzing haystack langchain llamaindex mcp openai openrefine rdf spacy tables training

.PHONY: help demo docs test test-quick test-integrations $(EXTRAS:%=test-%) test-slow lint types check format wheel-smoke quality tuning clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@for extra in $(EXTRAS); do printf '%-18s %s\n' "test-$$extra" "the tests of the optional extra $$extra"; done

$(VENV)/.runtime: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.development: $(VENV)/.runtime
	$(BIN)/python $(PIP_INSTALL) --editable '.[dev]'
	@touch $@

# An extra's environment sees the core's packages through one .pth line and holds only what the extra adds to them.
.venv-%/.ready: $(VENV)/.development
	$(PYTHON) -m venv .venv-$*
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >$$(echo .venv-$*/lib/python*/site-packages)/core.pth
	.venv-$*/bin/python $(PIP_INSTALL) --editable '.[$*]' $(addprefix --requirement ,$(wildcard tests/integrations/$*/requirements.txt))
	@touch $@

demo: $(VENV)/.runtime  ## build the bundled knowledge base, answer one query of each task, serve page and API until Ctrl-C
	$(BIN)/kbengine demo --kb $(DEMO_KB)

lint: $(VENV)/.development  ## ruff and the contracts between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.development  ## mypy, strict
	$(BIN)/mypy

# Two processes, a file's tests in one of them: what a module sets up is set up once; the longest files begin
# (tests/conftest.py). One thread each for numerics.
# A sync on a disk takes milliseconds and tests make thousands: temporary files are in memory where there is room.
IN_MEMORY := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 2000000 ] 2>/dev/null && echo PYTEST_DEBUG_TEMPROOT=/dev/shm TMPDIR=/dev/shm)
THREADS := OMP_NUM_THREADS=1 $(IN_MEMORY)
PYTEST := -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Types beside the tests: mypy keeps one core busy for half a minute.
test: lint  ## lint, types and the tests of the core, with the web page
	@$(BIN)/mypy & types=$$!; $(THREADS) $(BIN)/python $(PYTEST); tests=$$?; wait $$types && exit $$tests

BASE ?= main

test-quick: $(VENV)/.development  ## ruff and the tests that say most of what changed since BASE (main), without a browser
	$(BIN)/ruff check .
	$(THREADS) $(BIN)/python $(PYTEST) -x -m "not slow and not gpu and not browser" $$($(BIN)/python -m tests.changed $(BASE))

test-integrations: $(EXTRAS:%=test-%)  ## the tests of every optional extra, each in an environment with only that extra

$(EXTRAS:%=test-%): test-%: .venv-%/.ready
	$(THREADS) .venv-$*/bin/python $(PYTEST) $(OPTIONS) tests/integrations/$*

# What LangChain's conformance tests bring into pytest.
test-langchain: OPTIONS := --benchmark-disable -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function

# Counts add up over runs in build/endurance.jsonl; stop it at any time, and MINUTES=30 stops it by itself.
MINUTES ?= inf

test-slow: $(VENV)/.development  ## the long tests of the core; kills, power cuts, faults, flips and a soak, by the thousand
	$(THREADS) $(BIN)/python $(PYTEST) -m slow
	$(THREADS) $(BIN)/python -m tests.endurance --minutes $(MINUTES)

check: test test-integrations docs wheel-smoke  ## what CI runs

format: $(VENV)/.development  ## sort imports and lay out the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# KBENGINE_KILT_DATA is a folder of KILT files: *.pages.jsonl.gz, *.dev.jsonl.gz. SCRATCH needs about 6 GB.
SCRATCH ?= quality-scratch
QUALITY_KB ?= $(SCRATCH)/kb

quality: .venv-benchmarks/.ready  ## predict and score every development set beside BM25 and a dense-passage baseline
	.venv-benchmarks/bin/python -m benchmarks.quality --kb $(QUALITY_KB) --scratch $(SCRATCH)

# TUNING_KB is a knowledge base of all pages that gets the tuned encoders; KBENGINE_KILT_DATA as above.
TUNING_KB ?= $(QUALITY_KB)
TUNING_MINUTES ?= 110

tuning: .venv-benchmarks/.ready  ## tune the query encoder for every task in TUNING_MINUTES; a smaller run says so
	.venv-benchmarks/bin/python -m recipes.tuning --kb $(TUNING_KB) --minutes $(TUNING_MINUTES)

docs: .venv-docs/.ready  ## the documentation site in build/site; a broken link fails
	.venv-docs/bin/python docs/site.py

wheel-smoke: $(VENV)/.development  ## build the wheel, compare its file list, run it outside the checkout
	PYTHON=$(BIN)/python bash .ci/wheel-smoke

clean:  ## remove the environments, the demo's knowledge base and caches
	rm -rf $(VENV) $(EXTRAS:%=.venv-%) .venv-docs $(DEMO_KB) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
