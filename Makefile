# All commands of this project. `make help` lists them.
#
# Everything is installed into .venv, editable, so that `.venv/bin/cogstep` is the same command whatever was made first.
# Stamp files inside .venv remember what is installed; they go stale when pyproject.toml changes.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# The first Python on the path that starts, is 3.11 or newer, and can make environments. `make PYTHON=... demo` chooses.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	"$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo "$$python"; break; }; done)

# The backend of the demo: MLX comes as a wheel, while llama-cpp-python is compiled on installation (5.6 minutes on two
# cores, measured). Where no MLX wheel fits the machine, the demo falls back to llama.cpp. `make demo BACKEND=llama`
# goes there directly.
BACKEND ?= mlx

# `make SHORT=1 TARGET` is the short form of a command that takes long: enough of it to see that it runs. `.ci/run` runs
# the short form of everything that `make help` lists, since a command that nobody runs breaks one day.
SHORT ?=
short = $(if $(SHORT),$(1),$(2))

# Tests run on all processors. `make PARALLEL= test ARGS="-k name"` runs one after the other, in this process.
PARALLEL ?= -n auto --dist worksteal

# GCC 12 compiles llama.cpp's code for Intel's AMX wrongly: half of the tiles' configuration is never written, and the
# first prompt ends the process with SIGSEGV (llama-cpp-python 0.3.36, seen in the disassembly). Without the macro it is
# left out, and AVX-512 does that work. Processors without AMX are not concerned.
export CFLAGS += -U__AMX_INT8__
export CXXFLAGS += -U__AMX_INT8__

# How long `make fuzz` goes on with each of its targets.
SECONDS ?= $(call short,5,600)

.DEFAULT_GOAL := help
.PHONY: help demo servers test test-all test-pythons coverage lint format types contracts docs mutants bench bench-once prove conformance fuzz fuzz-policy hammer hammer-isolated kills memory-kills durable-kills restate-kills tau2 check clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  SHORT=1 before a name is the short form of what takes long; ARGS=\"...\" behind it goes to the program."

demo: $(VENV)/.demo-$(BACKEND) ## set up what the demo needs, then ask the shipped model one question
	$(BIN)/cogstep run "What is 17 * 23?"

# The providers' own clients are no part of the extra `dev`: 70 MB, for four tests.
servers: $(VENV)/.all ## compile llama-server (4 minutes on two cores, once), get Restate's and the providers' clients: tests are skipped without
	$(PIP) install 'openai>=3,<4' 'anthropic>=2,<3' 'ollama>=0.6,<0.7'
	@command -v cmake >/dev/null || test -x $(BIN)/cmake || $(PIP) install cmake
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m benchmarks.native_tools llama-server
	@! command -v npm >/dev/null || npm install --prefix .restate --ignore-scripts --no-audit --no-fund --silent @restatedev/restate-server@1.7

# Two lanes: `test` is for every change and takes a few minutes; `test-all` has the slow tests too (tests/slow.txt, and
# those that are marked `slow`), and more examples of each property.
test: $(VENV)/.all ## set up everything, then run the quick tests: every room, every line of the core, both backends
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" --hypothesis-profile=quick $(ARGS)

test-all: $(VENV)/.all ## run all tests
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

# 3.12 and 3.13 where they are installed, and the core on 3.14. Those that are not there are named.
test-pythons: $(VENV)/.all ## run the quick tests on Python 3.12 and 3.13, if they are installed, and the core's on 3.14 (Pyodide)
	$(BIN)/python tests/pythons.py $(ARGS)

# A fixed seed: what is reached must not depend on what Hypothesis happens to draw.
coverage: $(VENV)/.all ## the core's tests, which reach every line and branch of cognition/
	$(BIN)/python -m pytest $(PARALLEL) tests/cognition tests/laws --hypothesis-seed=0 --cov=cognition --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100 $(ARGS)

lint: $(VENV)/.all ## style (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.all ## put the style right where ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.all ## strict types (mypy)
	$(BIN)/mypy

contracts: $(VENV)/.all ## imports point down only (import-linter)
	$(BIN)/lint-imports

docs: $(VENV)/docs/.all ## build the site from docs/ into build/site/: search, API reference, every page as Markdown too, llms.txt
	$(VENV)/docs/bin/python docs/build_site.py $(ARGS)

mutants: $(VENV)/.all ## change the core in thousands of ways and count what the tests notice (mutmut)
	$(BIN)/python tests/mutants.py $(call short,'cognition.steps.retry.*') $(ARGS)

bench: $(VENV)/.all ## the cost of one turn, beside the peers (in an environment of their own)
	$(BIN)/python benchmarks/turn.py $(call short,--lengths 10 --turns 3) $(ARGS)

bench-once: $(VENV)/.all ## one round of each benchmark, in small: not to measure, but to see that it runs
	$(BIN)/python benchmarks/once.py $(ARGS)

prove: $(VENV)/.all ## hold the core to all its laws in 1,250,000 situations of eight configurations (20 minutes on two cores)
	$(BIN)/python benchmarks/prove.py $(call short,--states 8000) $(ARGS)

conformance: $(VENV)/.all ## parse what the chat templates of all model families write (downloads 114 MB, once)
	$(BIN)/python tests/conformance/templates.py $(call short,--short) $(ARGS)

fuzz: $(VENV)/.all ## fuzz parser, repair, derivation, schemas and wire formats (atheris); SECONDS=60 for a minute instead of ten
	$(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS) $(ARGS)

fuzz-policy: $(VENV)/.all ## 200,000 random command lines: what policy allows is run in bubblewrap, in bash and in dash; ARGS="--seeds 1 2 3 4 5"
	$(BIN)/python tests/fuzz/policy.py $(call short,--lines 15000) $(ARGS)

hammer: $(VENV)/.all ## ten threads at one model for two minutes, with random cancels; ARGS="--backend mlx", "--drafting"
	$(BIN)/python tests/runtime/hammer.py $(call short,--seconds 5) $(ARGS)

hammer-isolated: $(VENV)/.all ## the same at a model in a process of its own; ARGS="--backend mlx"
	$(BIN)/python tests/runtime/hammer_isolated.py $(call short,--seconds 5) $(ARGS)

kills: $(VENV)/.all ## eight sessions on a model whose process is killed a hundred times; ARGS="--backend mlx"
	$(BIN)/python tests/runtime/kills.py $(call short,--times 3) $(ARGS)

memory-kills: $(VENV)/.all ## two processes at one memory for half a minute, one of which is killed three times
	$(BIN)/python tests/runtime/memory_kills.py $(call short,--seconds 6) $(ARGS)

durable-kills: $(VENV)/.all ## sessions on DBOS whose processes are killed a hundred times while others take over; ARGS="--on sqlite"
	$(BIN)/python -m tests.interpreters.durable.kills $(call short,--kills 2 --freezes 0 --sessions 4) $(ARGS)

restate-kills: $(VENV)/.all ## eight sessions on a Restate server, which is killed a hundred times, and the processes that work at them
	$(BIN)/python tests/interpreters/durable/restate_kills.py $(call short,--times 2 --sessions 2) $(ARGS)

tau2: $(VENV)/.all ## the 281 tasks of tau2 as scripted sessions in small contexts, counted and estimated (downloads 61 MB, once)
	$(BIN)/python benchmarks/tau2.py --install $(call short,--every 40) $(ARGS)

check: lint types contracts test ## all that has to pass before a commit (the tests run the examples too)

clean: ## remove the environment and all caches; SHORT=1 keeps the environment
	rm -rf $(call short,,$(VENV)) mutants build dist *.egg-info .coverage* htmlcov
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "cogstep needs Python 3.11 or newer with venv: install it (Debian and Ubuntu: apt install python3 python3-venv) or say make PYTHON=/path/to/python3.11 ..." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old or does not start: cogstep needs Python 3.11 or newer" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# --only-binary: without a wheel, pip would start to compile MLX itself; then llama.cpp is the shorter way.
$(VENV)/.demo-mlx: pyproject.toml | $(BIN)/python
	@test $(VENV)/.all -nt pyproject.toml \
	|| { echo "Installing cogstep with MLX into $(VENV) ..." && $(PIP) install --only-binary mlx,mlx-cpu,mlx-metal -e '.[mlx]'; } \
	|| { echo "MLX could not be installed, for the reason above. Installing llama.cpp instead, which compiles for some minutes ..." && $(PIP) install -e '.[llama]'; }
	@touch $@

$(VENV)/.demo-llama: pyproject.toml | $(BIN)/python
	@test $(VENV)/.all -nt pyproject.toml \
	|| { echo "Installing cogstep with llama.cpp into $(VENV): this compiles for some minutes ..." && $(PIP) install -e '.[llama]'; }
	@touch $@

# The generator of the site needs an environment of its own: no test imports it, and it imports only the core.
$(VENV)/docs/.all: docs/requirements.txt | $(BIN)/python
	$(BIN)/python -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip --disable-pip-version-check --quiet install -r docs/requirements.txt
	@touch $@

$(VENV)/.all: pyproject.toml | $(BIN)/python
	@echo "Installing cogstep with both backends and the tools into $(VENV): llama.cpp compiles for some minutes ..."
	@$(PIP) install -e '.[llama,mlx,hub,remote,dev]'
	@touch $@
