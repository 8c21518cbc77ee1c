# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c $(CONSTRAINTS)

.PHONY: help run test test-oldest test-bare coverage check format docs dist golden bench campaign browser proof proof-compiled proof-campaign \
  proof-campaign-if-possible proof-tools beside-pip clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-11s %s\n", $$1, $$2}'

run: $(VENV)/.run  ## install, certify the embedded digits, write runs/digits/report.html
	$(BIN)/poisonproof run digits --out runs/digits

# pip and Coq take a minute and more each, on one core each, so they work side by side.
test:  ## install what tests need and run them all, style, types and proofs included
	$(MAKE) --no-print-directory -j 2 $(VENV)/.dev beside-pip
	$(MAKE) --no-print-directory -j 2 check proof-campaign-if-possible
	$(BIN)/python -m pytest -n auto --dist worksteal

# TESTS=tests/votes picks some; the environment has the lowest versions that pyproject.toml declares.
test-oldest: $(VENV)-oldest/.tests  ## the tests with the lowest declared versions, in .venv-oldest (without torch)
	@echo "*** torch is not in the oldest environment: its tests are skipped there and run by make test ***"
	PATH="$(CURDIR)/$(VENV)-oldest/bin:$$PATH" $(VENV)-oldest/bin/python -m pytest -n auto $(TESTS)

# Files of tests that name none of the optional libraries; the README shows a table, so it needs one.
BARE = $(filter-out tests/package/test_readme.py, \
  $(shell grep -rLE --include='test_*.py' 'pandas|pyarrow|PIL|dask|distributed|torch|mkdocs|playwright|cryptography|jsonschema|test_browser|from (browsing|encoding|every_learner|stacks) import' tests))
test-bare: $(VENV)-bare/.tests  ## the tests that need no extras, in .venv-bare, where there are none
	PATH="$(CURDIR)/$(VENV)-bare/bin:$$PATH" $(VENV)-bare/bin/python -m pytest -n auto $(or $(TESTS),$(BARE))

coverage: $(VENV)/.dev  ## which lines the tests run, worker processes included (compiled kernels cannot be seen)
	$(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered --cov-report=html:htmlcov $(TESTS)

check: $(VENV)/.dev  ## style (ruff) and types (mypy)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## put the code into this project's style
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

docs: $(VENV)/.dev  ## build the site into site/; site/index.html opens without a server or a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: | $(VENV)/bin/python  ## build the wheel; install it in a clean environment and run the README there
	rm -rf dist $(VENV)-dist
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv $(VENV)-dist
	wheel=$$(ls dist/*.whl) && $(VENV)-dist/bin/python -m pip --disable-pip-version-check install --quiet \
	  "$$wheel[tables]" pytest
	$(VENV)-dist/bin/python -c 'import poisonproof, sys; sys.exit(sys.prefix not in poisonproof.__file__)'
	PATH="$(CURDIR)/$(VENV)-dist/bin:$$PATH" $(VENV)-dist/bin/python -m pytest -p no:cacheprovider --noconftest \
	  tests/package/test_readme.py
	@ls -l dist

golden: $(VENV)/.dev  ## certificates, splits and votes of small cases beside the recorded ones (tools/golden.py says more)
	$(BIN)/python tools/golden.py check

bench: $(VENV)/.dev  ## measure speed and memory, in ratios within one run (benchmarks/RESULTS.md)
	$(BIN)/python benchmarks/certify.py
	$(BIN)/python benchmarks/split.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/update.py
	$(BIN)/python benchmarks/verify.py

campaign: $(VENV)/.dev  ## attack our own certificates, entry points, runs and verifier for hours; any break is an error
	$(BIN)/python benchmarks/designs.py campaign
	$(BIN)/python benchmarks/runoff.py --attack 6000
	$(BIN)/python benchmarks/target.py 36000
	$(BIN)/python benchmarks/shared_attack.py --brute-force 5000
	$(BIN)/python benchmarks/stochastic.py campaign
	$(BIN)/python benchmarks/ballots.py --brute-force 20000
	$(BIN)/python benchmarks/formal.py campaign --ensembles 2000
	$(BIN)/python benchmarks/odd_rows.py --cases 20000
	$(BIN)/python benchmarks/fuzz.py --seconds 120
	$(BIN)/python benchmarks/corrupt.py
	$(BIN)/python benchmarks/kill.py --kills 200
	$(BIN)/python benchmarks/audit.py

# The report is tested in a real browser; where none can be had, the tests say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] \
	  && (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium) >/dev/null 2>&1; } \
	|| echo "*** no Chromium here and none could be installed: the browser tests will be skipped ***"

# The proofs: compiled from scratch, asked what they assume, extracted, and run against certify (docs/machine-checked.md).
ENSEMBLES ?= 2000
HAVE_COQ = command -v coqc >/dev/null && command -v ocamlfind >/dev/null && ocamlfind query zarith >/dev/null 2>&1
NO_COQ = *** no Coq here and none could be installed: the proofs are not compiled and their tests are skipped ***
proof: $(VENV)/.dev proof-tools  ## compile the Coq proofs, build poisonproof-check from them, run it against certify
	@$(HAVE_COQ) || { echo "*** coq, ocaml and zarith are not here and could not be installed: nothing was proved." \
	  "On Debian: apt-get install coq ocaml ocaml-findlib libzarith-ocaml-dev ***"; exit 1; }
	$(MAKE) --no-print-directory proof-compiled
	$(MAKE) --no-print-directory proof-campaign

proof-compiled:
	@coqc --version | head -n 1
	$(MAKE) --no-print-directory -C proofs clean
	$(MAKE) --no-print-directory -C proofs -j 2 all

proof-campaign:
	$(BIN)/python benchmarks/formal.py campaign --ensembles $(ENSEMBLES)

proof-campaign-if-possible:
	@if $(HAVE_COQ); then $(MAKE) --no-print-directory proof-campaign; else echo "$(NO_COQ)"; fi

proof-tools:
	@$(HAVE_COQ) || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] \
	  && (apt-get update -qq && apt-get install -y -qq --no-install-recommends \
	    coq ocaml ocaml-findlib libzarith-ocaml-dev) >/dev/null 2>&1; } || true

# One after the other: both may call apt-get.
beside-pip:
	@$(MAKE) --no-print-directory browser
	@$(MAKE) --no-print-directory proof-tools
	@if $(HAVE_COQ); then $(MAKE) --no-print-directory proof-compiled; else echo "$(NO_COQ)"; fi

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "poisonproof needs Python 3.11 or newer; set PYTHON=…"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)-oldest/.tests: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip --disable-pip-version-check install --quiet -c constraints-oldest.txt \
	  -r constraints-oldest.txt -e .
	$(VENV)-oldest/bin/python -m pip check
	@touch $@

$(VENV)-bare/.tests: pyproject.toml
	$(PYTHON) -m venv $(VENV)-bare
	$(VENV)-bare/bin/python -m pip --disable-pip-version-check install --quiet -e . pytest pytest-xdist hypothesis
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-bare $(VENV)-dist dist htmlcov .coverage runs site .pytest_cache .mypy_cache .ruff_cache .hypothesis
