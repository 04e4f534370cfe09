# `make` alone lists the targets. Variables: VENV (default .venv), PYTHON (to create it), ARGS (to pass on), RUNS.
SHELL := /bin/bash
VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
ARGS ?=
RUNS ?= 1
PIP := $(PY) -m pip --disable-pip-version-check --no-input

# Whether Debian packages can be installed; and how, without a question and without starting a service.
CAN_APT := [ "$$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null
APT := DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup lint test fresh test-deps node-deps demo bench faults fuzz audit docs lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## Create the virtualenv from the lock, then get Java, the jars and a store server
	@$(PY) -m distributary.setup

lint: $(STAMP) ## Check style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

test: setup test-deps node-deps ## Run lint and all tests except the fault drills (ARGS: for pytest)
	$(PY) -m tests $(ARGS)

fresh: ## Run make test in a fresh clone of HEAD with empty caches (ARGS; RUNS: how many times)
	@for run in $$(seq $(RUNS)); do \
	  folder=$$(mktemp -d -t distributary-fresh-XXXXXX); \
	  git clone --quiet . "$$folder/clone"; \
	  echo "fresh: run $$run of $(RUNS), $$(git log -1 --format='%h %s'), log: $$folder/log"; \
	  began=$$SECONDS; \
	  if ! DISTRIBUTARY_CACHE="$$folder/cache" XDG_CACHE_HOME="$$folder/cache" PIP_CACHE_DIR="$$folder/pip" \
	      npm_config_cache="$$folder/npm" \
	      $(MAKE) --no-print-directory -C "$$folder/clone" test VENV=.venv </dev/null >"$$folder/log" 2>&1; then \
	    tail -40 "$$folder/log"; \
	    echo "error: run $$run failed after $$((SECONDS - began)) s. See its clone and log: $$folder" >&2; exit 1; \
	  fi; \
	  grep -E '[0-9]+ passed' "$$folder/log"; \
	  echo "fresh: run $$run passed in $$((SECONDS - began)) s"; \
	  rm -rf "$$folder"; \
	done

demo: setup ## Run the demo (ARGS: for `distributary demo`)
	$(VENV)/bin/distributary demo $(ARGS)

bench: setup ## Measure throughput and latency (ARGS: for `python -m bench`)
	$(PY) -m bench $(ARGS)

faults: setup test-deps ## Kill processes of the stack and check that it recovers (ARGS: for pytest)
	$(PY) -m pytest -m faults --capture=no $(ARGS)

fuzz: $(STAMP) ## Try a million random and mutated inputs on every parser of untrusted data (ARGS: see --help)
	$(PY) -m tests.fuzz $(ARGS)

audit: $(STAMP) ## Write an SBOM to build/ and look up the advisories of all components (ARGS: see --help)
	$(PY) -m distributary.setup.vulnerabilities $(ARGS)

docs: $(STAMP) ## Regenerate the reference pages
	$(PY) -m distributary.docgen $(ARGS)

lock: ## Regenerate requirements.lock from pyproject.toml (requires uv)
	@command -v uv >/dev/null || { echo "error: uv is not on PATH. Install it with 'pip install uv'" >&2; exit 1; }
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --extra dev pyproject.toml --output-file requirements.lock

clean: ## Remove what the targets created here (not the user's jar cache)
	@if [ -f "$(VENV)/pyvenv.cfg" ]; then rm -rf "$(VENV)"; fi
	rm -rf build dist src/*.egg-info tests/node/node_modules
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# --- steps behind the targets -------------------------------------------------------------------------------

# The lock is complete, so pip has nothing to resolve: --no-deps. When it resolves, a dependency that is named with
# an extra (picows requires python-socks[asyncio]) makes it look at releases newer than the locked one, and fail.
$(STAMP): requirements.lock pyproject.toml
	@python=; \
	for each in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
	  "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { python=$$each; break; }; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "error: Python 3.11 or newer is not on PATH. Install it (Debian: apt-get install python3-venv;" \
	    "macOS: brew install python@3.11), or run: make setup PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1 && $(CAN_APT); then \
	  echo "setup: installing python3-venv with apt-get"; \
	  $(APT) update -qq </dev/null || true; \
	  $(APT) install -y -qq --no-install-recommends python3-venv </dev/null >/dev/null; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	  echo "error: $$python cannot create a virtualenv. On Debian: sudo apt-get install python3-venv" >&2; exit 1; \
	fi; \
	echo "setup: virtualenv $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv "$(VENV)"
	$(PIP) install --require-hashes --no-deps -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	$(PIP) check
	@touch $@

test-deps: ## Install redis-server, chromium with its driver, and a C compiler for the tests that use them
	@missing=; \
	command -v redis-server >/dev/null || missing="redis-server"; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || missing="$$missing chromium"; \
	command -v chromedriver >/dev/null || missing="$$missing chromium-driver"; \
	command -v cc >/dev/null || missing="$$missing gcc libc6-dev"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if ! { $(CAN_APT); }; then \
	  echo "test-deps: not installed here: $$missing. The tests that need it are skipped." \
	    "Install it yourself, or run make test as root on Debian."; \
	  exit 0; \
	fi; \
	echo "test-deps: installing $$missing with apt-get"; \
	policy=/usr/sbin/policy-rc.d; \
	if [ ! -e $$policy ]; then \
	  trap 'rm -f '$$policy EXIT; printf '#!/bin/sh\nexit 101\n' >$$policy; chmod +x $$policy; \
	fi; \
	$(APT) update -qq </dev/null || true; \
	if ! $(APT) install -y -qq --no-install-recommends $$missing </dev/null >/dev/null; then \
	  echo "error: apt-get could not install $$missing. Check the network and run make test-deps again" >&2; exit 1; \
	fi; \
	case "$$missing" in *redis*) \
	  if [ -d /run/systemd/system ]; then systemctl disable --quiet redis-server || true; fi;; \
	esac

node-deps:
	@cd tests/node 2>/dev/null && [ -f package-lock.json ] || exit 0; \
	if ! command -v npm >/dev/null; then \
	  echo "node-deps: npm is not installed. The tests that use JavaScript clients are skipped."; exit 0; \
	fi; \
	if [ node_modules/.package-lock.json -nt package-lock.json ]; then exit 0; fi; \
	echo "node-deps: npm ci in tests/node"; \
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null
