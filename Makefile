# Needs python3 (3.11, 3.12 or 3.13) with its venv module, and make. Everything lands in .venv; `make clean` removes it.

PYTHON         ?= python3
VENV           ?= .venv
# What to install as PyTorch for `make test`, and with which extra arguments of pip. On Linux the default wheel of the
# public index carries CUDA (gigabytes), so the CPU build is asked for by its own version; where the index has none, the
# tests of learning are skipped, and `make test` says so (docs/dependencies.md#locks). Empty TORCH: none.
TORCH_VERSION  := 2.13.0
TORCH          ?= torch==$(TORCH_VERSION)$(if $(filter Linux,$(shell uname -s)),+cpu)
TORCH_PIP_ARGS ?=
# Further words for pytest, for example PYTEST_ARGS="-k engine -x".
PYTEST_ARGS    ?=
DEMO_ARGS      ?=
# Interpreters on which `make package` tries the wheel as well: PYTHONS="python3.12 python3.13".
PYTHONS        ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test suite lint style types mypy docs site notebooks bench pictures package pythons lock clean system

help: ## say what each target does
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(VENV)/.core ## create .venv, install the light core, compare the policies on a built-in scenario
	@echo "== running: eunomia demo $(DEMO_ARGS)"
	@$(BIN)/eunomia demo $(DEMO_ARGS)

test: $(VENV)/.torch ## install what the tests need, check style and types, run all tests
	@echo "== checking style, spelling, words and imports"
	@$(MAKE) --no-print-directory -j2 $(VENV)/.tools style
	@echo "== checking types, and running the tests on the cores of this machine (a few minutes)"
	@$(MAKE) --no-print-directory -k -j2 mypy suite || { cat $(VENV)/types.log; exit 1; }

# Types are checked by one process for a minute and a half: beside the tests (-k: these run whatever it finds). What
# is wrong with them is printed once, behind what the tests print.
suite: $(VENV)/.torch
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n auto --dist loadfile --max-worker-restart 0 $(PYTEST_ARGS)

lint: style types ## check format, style, spelling, words, types and who imports whom

style: $(VENV)/.test
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/codespell
	@$(BIN)/python checks/words.py
	@$(BIN)/python -m checks.pages
	@$(BIN)/lint-imports --no-logo >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

types: $(VENV)/.test
	@$(MAKE) --no-print-directory mypy || { cat $(VENV)/types.log; exit 1; }

mypy: $(VENV)/.test
	@$(BIN)/mypy --no-error-summary >$(VENV)/types.log

docs: $(VENV)/.test ## write the generated parts of docs/ anew from the code
	@$(BIN)/python -m checks.pages --write

site: $(VENV)/.test ## build the documentation as a site: build/site/html/index.html
	@$(BIN)/python -m checks.site

notebooks: $(VENV)/.torch ## run every notebook from its first cell to its last
	@MPLBACKEND=agg $(BIN)/python -m checks.notebooks

bench: $(VENV)/.test ## measure the engine against its peers
	@$(BIN)/python -m benchmarks engine --print

pictures: $(VENV)/.test ## draw every published picture anew (needs Chromium)
	@$(BIN)/python -m benchmarks pictures

# Exact versions with hashes, for Python 3.11 to 3.13 on every system. Needs uv; nothing else here does.
lock: ## write requirements/*.txt anew from pyproject.toml
	uv pip compile $(LOCK) pyproject.toml -c requirements/common.in -o requirements/core.txt
	uv pip compile $(LOCK) pyproject.toml requirements/torch-needs.in --extra test --extra dev \
	    -c requirements/core.txt -o requirements/test.txt
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
    --no-annotate --custom-compile-command "make lock"

# The server's tests use a real browser, HAProxy and a real PostgreSQL. All are Debian packages; without them their tests are
# skipped, and say so. `make test` installs them where it may: as root on a Debian system.
PACKAGES := chromium chromium-driver curl haproxy openssl postgresql slurm-client slurmctld slurmd
package: $(VENV)/.test ## build wheel and sdist twice, compare them, try the wheel in a clean environment: dist/
	@$(BIN)/python -m checks.package $(PYTHONS)

pythons: $(VENV)/.test ## the same, with every Python 3.11 to 3.13 of this machine (path, pyenv, uv)
	@$(BIN)/python -m checks.package --every

system: ## install the Debian packages that some tests use (needs root)
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PACKAGES)

$(VENV)/.system: $(VENV)/.python
	@if command -v chromedriver >/dev/null && command -v chromium >/dev/null && ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "== installing $(PACKAGES)"; \
	    $(MAKE) --no-print-directory system >$(VENV)/system.log 2>&1 || echo "   not possible ($(VENV)/system.log); their tests are skipped"; \
	else echo "== without $(PACKAGES) some tests are skipped: sudo make system"; fi
	@touch $@

clean: ## remove the environment, caches and output of the demo
	rm -rf $(VENV) .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache build dist out *.egg-info
	find eunomia tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment, in three steps; each leaves a stamp and is not repeated while its inputs stay the same --------

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else \
	    "Eunomia needs Python 3.11, 3.12 or 3.13; this is %d.%d: make PYTHON=python3.12 ..." % v)'
	@echo "== creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.python requirements/core.txt pyproject.toml
	@echo "== installing Eunomia and its light core (NumPy, numba, pyarrow and their like) into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/core.txt
	@$(PIP) install --no-deps -e .
	@touch $@

# Byte code of what only the tests need is written when it is imported, not of all files at once.
$(VENV)/.test: $(VENV)/.core requirements/test.txt
	@echo "== installing what the tests need"
	@$(PIP) install --no-compile --require-hashes -r requirements/test.txt
	@touch $@

# Programs in a folder of their own, installed nowhere: perf_analyzer, which an old release of a package of the tests
# brings, with a library that it needs, and promtool, which has a package of its own in Debian 13.
$(VENV)/.tools: $(VENV)/.system requirements/perf.txt
	@if ( $(PIP) install --no-deps --no-compile --target $(VENV)/tools --upgrade --require-hashes -r requirements/perf.txt && \
	    cd $(VENV)/tools && { $(DOWNLOAD) || { apt-get update && $(DOWNLOAD); }; } && \
	    for one in *.deb; do dpkg -x $$one . && rm $$one; done ) >$(VENV)/tools.log 2>&1; then touch $@; \
	else echo "   without perf_analyzer or promtool their tests are skipped ($(VENV)/tools.log)"; fi
DOWNLOAD := apt-get download libb64-0d prometheus && { apt-get download promtool || :; }

$(VENV)/.torch: $(VENV)/.test
	@if [ -z "$(TORCH)" ]; then touch $@; \
	else echo "== installing $(TORCH)"; \
	    if $(PIP) install --no-compile $(TORCH_PIP_ARGS) "$(TORCH)" 2>$(VENV)/torch.log; then touch $@; \
	    else tail -n 1 $(VENV)/torch.log; echo "   without PyTorch tests of learning are skipped: docs/dependencies.md#locks"; fi; fi
