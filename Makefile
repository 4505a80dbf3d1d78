# Builds the book and runs the tests from a fresh clone; needs Python 3.11-3.13 and make.
# Downloads of packages use uv's own cache in the user's home; all else stays in this folder.

PYTHON3 ?=
PARAMETERS ?=
FORCE ?=
TORCH_ARGS ?=

VENV := .venv
PYTHON := $(VENV)/bin/python
UV := $(VENV)/bin/uv
STAMP := $(VENV)/.set-up
TORCH_VENV := .venv-torch
TORCH_PYTHON := $(TORCH_VENV)/bin/python
TORCH_STAMP := $(TORCH_VENV)/.set-up
CACHE := $(CURDIR)/.cache

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help set-up book test test-torch lint bench refresh clean

# Numba's cache does not notice a change in a function of another module, so compiled kernels are
# kept per version of their sources.
KERNELS := $(shell cat src/checkpoint_tax/simulate/*.py src/checkpoint_tax/reconcile/*kernels.py requirements.lock 2>/dev/null | cksum | tr ' ' '-')

export UV_PYTHON_DOWNLOADS := never
export NUMBA_CACHE_DIR := $(CACHE)/numba/make-$(KERNELS)
export HYPOTHESIS_STORAGE_DIRECTORY := $(CACHE)/hypothesis
export IPYTHONDIR := $(CACHE)/ipython
export JUPYTER_CONFIG_DIR := $(CACHE)/jupyter
export JUPYTER_DATA_DIR := $(CACHE)/jupyter
export JUPYTER_PREFER_ENV_PATH := 1
export JUPYTER_PLATFORM_DIRS := 1
export MPLCONFIGDIR := $(CACHE)/matplotlib
export PYDEVD_DISABLE_FILE_VALIDATION := 1

help: ## Print this help
	@echo "Usage: make TARGET"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  make book PARAMETERS=my-cluster.yaml    the book for your own numbers (a file or a"
	@echo "                                          preset), beside the default one"
	@echo "  make book FORCE=1                       execute every chapter again"
	@echo "  make book PYTHON3=/path/to/python3.12   choose the Python to set up with"

set-up: $(STAMP) ## Set up .venv with the pinned packages (the others do this by themselves)

$(STAMP): requirements.lock pyproject.toml
	@echo "== Setting up $(VENV) (about a minute the first time)"
	@"$(PYTHON)" -c '' 2>/dev/null || { \
	  for candidate in $(PYTHON3) python3 python3.13 python3.12 python3.11; do \
	    if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; \
	    then found="$$candidate"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "make: found no Python 3.11, 3.12 or 3.13; name one: make book PYTHON3=/path/to/python3.12" >&2; \
	    exit 1; \
	  fi; \
	  "$$found" -m venv --clear $(VENV) || { \
	    echo "make: $$found cannot make a virtual environment (on Debian: apt-get install python3-venv)" >&2; \
	    exit 1; }; }
	@mkdir -p $(CACHE)
	@"$(UV)" --version >/dev/null 2>&1 || { \
	  awk '/^[^ #]/ { wanted = /^uv==/ } wanted' requirements.lock > $(VENV)/uv.lock.txt; \
	  "$(PYTHON)" -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock.txt; }
	@"$(UV)" pip sync --quiet --python "$(PYTHON)" --require-hashes --compile-bytecode requirements.lock
	@"$(UV)" pip install --quiet --python "$(PYTHON)" --no-deps --no-build-isolation -e .
	@touch $(STAMP)

# PyTorch is a second environment, so that nobody downloads it who does not ask for it: the same
# lock, then the one version that the extra names. pip takes the build that its own settings find;
# TORCH_ARGS passes it more, such as an index of builds without CUDA.
$(TORCH_STAMP): $(STAMP)
	@echo "== Setting up $(TORCH_VENV) with PyTorch (minutes the first time)"
	@"$(PYTHON)" -m venv --clear $(TORCH_VENV)
	@"$(UV)" pip sync --quiet --python "$(TORCH_PYTHON)" --require-hashes --compile-bytecode requirements.lock
	@sed -n 's/^\([A-Za-z0-9._-]*==[^ ]*.*\) \\$$/\1/p' requirements.lock > $(TORCH_VENV)/pins.txt
	@"$(TORCH_PYTHON)" -m pip install --quiet --disable-pip-version-check --no-build-isolation \
	  --constraint $(TORCH_VENV)/pins.txt $(TORCH_ARGS) -e ".[torch]"
	@touch $(TORCH_STAMP)

book: $(STAMP) ## Execute the chapters that changed and build the book
	@"$(PYTHON)" -m checkpoint_tax.publish build $(if $(PARAMETERS),--parameters "$(PARAMETERS)") $(if $(FORCE),--force)

test: lint ## Run every test, lint included
	@echo "== Tests"
	@"$(PYTHON)" -m pytest -n 2 --dist loadfile
	@echo "== Chapters against their committed outputs"
	@set -- book/*.ipynb; if [ -e "$$1" ]; then \
	  "$(PYTHON)" -m pytest --nbval --nbval-kernel-name=python3 -n 2 --dist loadfile "$$@"; \
	else echo "no chapters yet"; fi

test-torch: $(TORCH_STAMP) ## Run the tests that need PyTorch (sets up .venv-torch)
	@echo "== Tests with PyTorch"
	@"$(TORCH_PYTHON)" -m pytest tests/torch -n 2 --dist loadfile

lint: $(STAMP) ## Check style, types and the rooms of the package
	@echo "== Lint"
	@"$(PYTHON)" -m ruff check .
	@"$(PYTHON)" -m ruff format --check .
	@"$(PYTHON)" -m mypy
	@"$(VENV)/bin/lint-imports" --cache-dir $(CACHE)/import-linter

bench: $(STAMP) ## Measure the simulator and, where .venv-torch is set up, the replay
	@if [ -e $(TORCH_STAMP) ]; then "$(TORCH_PYTHON)" tests/bench/run.py; \
	else "$(PYTHON)" tests/bench/run.py; fi

refresh: $(STAMP) ## Write fresh outputs into the committed notebooks
	@"$(PYTHON)" -m checkpoint_tax.publish refresh

clean: ## Remove built books and caches; keeps .venv and .venv-torch
	@rm -rf book/_build .cache dist
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
