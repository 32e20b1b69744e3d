# Two commands on a fresh machine: `make demo` and `make test`. Both set up their own virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_KB ?= demo-kb

.PHONY: demo test test-slow lint types check format wheel-smoke quality tuning clean

$(VENV)/.runtime: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.development: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/.runtime  ## build the bundled knowledge base, answer one query of each task, serve page and API until Ctrl-C
	$(BIN)/kbengine demo --kb $(DEMO_KB)

lint: $(VENV)/.development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.development
	$(BIN)/mypy

# Two processes, a file's tests in one of them: what a module sets up is set up once. One thread each for numerics.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

test: lint types  ## lint, types and tests
	$(PYTEST)

test-slow: $(VENV)/.development  ## the long tests too: hundreds of kills, every byte flipped
	$(PYTEST) -m slow

check: test

format: $(VENV)/.development
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# KBENGINE_KILT_DATA is a folder of KILT files: *.pages.jsonl.gz, *.dev.jsonl.gz. SCRATCH needs about 6 GB.
SCRATCH ?= quality-scratch
QUALITY_KB ?= $(SCRATCH)/kb

$(VENV)/.benchmarks: $(VENV)/.development
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[benchmarks]'
	@touch $@

quality: $(VENV)/.benchmarks  ## predict and score every development set beside BM25 and a dense-passage baseline
	$(BIN)/python -m benchmarks.quality --kb $(QUALITY_KB) --scratch $(SCRATCH)

# TUNING_KB is a knowledge base of all pages that gets the tuned encoders; KBENGINE_KILT_DATA as above.
TUNING_KB ?= $(QUALITY_KB)
TUNING_MINUTES ?= 110

tuning: $(VENV)/.benchmarks  ## tune the query encoder for every task in TUNING_MINUTES; a smaller run says so
	$(BIN)/python -m recipes.tuning --kb $(TUNING_KB) --minutes $(TUNING_MINUTES)

wheel-smoke: $(VENV)/.development  ## build the wheel, compare its file list, run it outside the checkout
	PYTHON=$(BIN)/python bash .ci/wheel-smoke

clean:
	rm -rf $(VENV) $(DEMO_KB) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
