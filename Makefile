# Everything a developer or CI runs. Each target installs what it needs into .venv and .cache; none needs root, but
# for the browser that the page is tested in.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export DRAGOMAN_TEST_CACHE ?= $(CURDIR)/.cache
# Tests run hundreds of commands; with this variable set, Python would compile every module again for each of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run run-check hello install lint lint-page format format-page test test-all test-agents torture torture-commands torture-server torture-page torture-faults torture-table bench vocabulary reference clean docs dist page built browser types test-page bench-page shots

run: install built  ## install, build the page, and serve it: prints a link
	$(BIN)/dragoman serve

run-check: install built  ## the same, but only to see that it answers
	$(BIN)/python scripts/check_serve.py

hello: install  ## a first run on a terminal: talk to the built-in demo agent
	$(BIN)/dragoman run "hello"

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Dragoman needs Python 3.11 or newer; PYTHON=/path/to/python3.11 make ... names another."; exit 1; }
	@echo "installing into $(VENV)"
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "This Python cannot make a virtual environment: install python3-venv first."; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_style.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v npm > /dev/null; then $(MAKE) --no-print-directory lint-page; else \
		echo "The page is not linted, as there is no npm."; fi

lint-page: web/node_modules/.installed  ## the page: Biome with the rules of hooks, and the types
	cd web && npm run --silent lint

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@if command -v npm > /dev/null; then $(MAKE) --no-print-directory format-page; fi

format-page: web/node_modules/.installed
	cd web && npm run --silent format

test: install  ## under five minutes
	$(BIN)/pytest -n 3 --dist worksteal -m "not slow"

# The page by itself: the browser's driver keeps a loop running, beside which no other test could have one.
test-all: install built browser  ## what `make test` leaves out: tests that take long by their nature, or install something
	$(if $(shell command -v npm),cd web && npm test)
	PYTHONPATH=tests $(BIN)/python -m agents.install
	$(BIN)/pytest -n 3 -m slow --ignore tests/page
	$(BIN)/pytest -n 2 -m slow tests/page

# All attacks, with many repetitions. Each test adds what it tried to .cache/torture/attempts.jsonl, also where a part is
# run alone; docs/security.md shows the sums.
TORTURE := DRAGOMAN_TORTURE=$(CURDIR)/.cache/torture

torture: install built browser  ## attack everything, for less than an hour, and write the figures into docs/security.md
	rm -rf .cache/torture
	$(MAKE) --no-print-directory --keep-going torture-commands torture-server torture-page torture-faults; \
		status=$$?; $(MAKE) --no-print-directory torture-table && exit $$status

torture-commands: install  ## command lines, rules, files, races and the sandbox
	$(TORTURE) DRAGOMAN_LINES=1000000 $(BIN)/pytest -n 2 --dist worksteal tests/host/test_canary.py
	$(TORTURE) $(BIN)/pytest -n 2 tests/host/test_attack_lines.py tests/host/test_escapes.py tests/host/test_guards.py \
		tests/host/test_hostile.py tests/cli/test_escapes.py tests/test_page_packages.py \
		tests/workspace/test_sandbox_attacks.py

torture-server: install  ## the server and its clients, secrets, the tool server
	$(TORTURE) DRAGOMAN_FUZZ=100 DRAGOMAN_CONNECTIONS=400 $(BIN)/pytest -n 2 tests/bridge/test_attacks.py \
		tests/bridge/test_security.py tests/bridge/test_scopes.py tests/bridge/test_hostile.py tests/bridge/test_fuzz.py \
		tests/bridge/test_connections.py tests/bridge/test_serve.py tests/bridge/test_tokens.py tests/bridge/test_logs.py \
		tests/bridge/test_message_content.py tests/journal/test_redaction.py tests/journal/test_sqlite.py \
		tests/proc/test_stderr.py tests/evaluation/test_server.py tests/evaluation/test_tool_ports.py \
		tests/hub/test_races.py tests/test_fileio.py

torture-page: install built browser  ## the page in a browser
	$(TORTURE) $(BIN)/pytest tests/page/test_hostile.py

torture-faults: install  ## kills, restarts, floods, full disks, orphans
	$(TORTURE) DRAGOMAN_OPENED=300 DRAGOMAN_JUMPS=20 $(BIN)/pytest -n 2 tests/faults tests/proc/test_reaper.py \
		--ignore tests/faults/test_kills.py --ignore tests/faults/test_bridge.py
	$(TORTURE) DRAGOMAN_KILLS=200 $(BIN)/pytest tests/faults/test_kills.py
	$(TORTURE) DRAGOMAN_DROPS=500 DRAGOMAN_RESTARTS=20 DRAGOMAN_SESSIONS=100 DRAGOMAN_SOCKETS=200 \
		$(BIN)/pytest tests/faults/test_bridge.py

torture-table: install
	$(BIN)/python scripts/generate_security_table.py

test-agents: install  ## real agents alone, each against a scripted model on loopback
	PYTHONPATH=tests $(BIN)/python -m agents.install
	$(BIN)/pytest -n 2 -m slow tests/agents

bench: install  ## side by side with the official SDKs; writes docs/performance.md
	$(BIN)/python -m bench

dist: install page  ## build the wheel and the sdist into dist/, with the page and the licences of its libraries
	rm -rf dist
	DRAGOMAN_PAGE=built $(BIN)/python -m hatchling build -t wheel -t sdist -d dist

docs: $(VENV)/.installed-docs  ## build the documents as a site into .cache/site; broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.installed-docs: $(VENV)/.installed
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

# -- the page, built into the package. hatch_build.py explains why this is not `npm ci`.

PAGE := src/dragoman/bridge/page/index.html

page: $(PAGE)  ## build the page into the package

built:
	@if command -v npm > /dev/null; then $(MAKE) --no-print-directory page; else \
		echo "The page is not built, as there is no npm: the API's documents are served in its place."; fi

$(PAGE): web/node_modules/.installed web/index.html web/vite.config.ts $(shell find web/src web/public -type f)
	cd web && npm run --silent build

web/node_modules/.installed: web/package-lock.json
	@command -v npm > /dev/null || { echo "The page needs Node 20.19 or later (npm) to be built."; exit 1; }
	cd web && npm install --silent --no-save --ignore-scripts
	@touch $@

# Chromium of Debian, in which the page is tested. Only root can install it; without it those tests are skipped.
browser:
	@command -v chromium > /dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		echo "installing chromium"; apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium > /dev/null; \
		else echo "There is no chromium: the page is not tested in a browser. (apt install chromium)"; fi

types: install  ## generate the page's types and the test data of its store from the server's
	$(BIN)/python scripts/generate_page_types.py
	$(BIN)/python scripts/generate_page_vectors.py

test-page: install page browser  ## the page by itself, then in a browser (Chromium) against a real server
	cd web && npm test
	$(BIN)/pytest -n 2 -m slow tests/page

bench-page: install page  ## what the page costs: size, time to open, frames while it streams
	PYTHONPATH=tests $(BIN)/python -m page.cost

shots: install page  ## take the pictures of docs/page.md
	PYTHONPATH=tests $(BIN)/python -m page.shots

vocabulary: install  ## generate the protocol's types from the pinned schema
	$(BIN)/python scripts/generate_vocabulary.py

reference: install  ## generate docs/reference and docs/agents.md from the code
	$(BIN)/python scripts/generate_reference.py

clean:
	rm -rf $(VENV) .cache dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
