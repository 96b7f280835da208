# Every target sets up what it needs in .venv and may be run again without harm.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint bench bench-lake docs workbench bundle screenshots fuzz soak lake-cluster
.PHONY: clean help
.DEFAULT_GOAL := help

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt tools/ensure_java.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lace needs Python 3.11 or later: run make PYTHON=python3.11, or newer")'
	@echo "setting up $(VENV) (once; about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) pip hatchling editables
	@$(PIP) --no-build-isolation --editable . --group dev
	@$(BIN)/python tools/ensure_java.py
	@touch $@

demo: $(READY) ## a notes room between two processes, one of them killed; then a small lake
	@$(BIN)/lace demo
	@echo
	@echo "The same records in bulk, on Spark"
	@$(BIN)/lace lake demo

test: $(READY) ## run all tests
	@$(BIN)/python tools/ensure_browser.py
	@$(BIN)/pytest

lint: $(READY) ## check style, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/check_web.py

bench: $(READY) ## measure, as ratios against floors and competitors in the same run
	@$(BIN)/python bench/run.py
	@$(PIP) --group bench
	@$(BIN)/python bench/rules

bench-lake: $(READY) ## measure the lake: validation, selection up to 5M records, recursion, summaries
	@$(BIN)/python bench/lake.py
	@$(BIN)/python bench/lake_end_to_end.py

lake-cluster: $(READY) ## run the lake on a Spark cluster of three processes, and compare
	@$(BIN)/python tools/lake_cluster.py

docs: $(READY) ## write the generated pages again
	@$(BIN)/python tools/generate_docs.py
	@$(BIN)/python tools/record_first.py

workbench: $(READY) ## see laces converge, step by step, in a browser
	@$(BIN)/lace workbench

bundle: $(READY) ## make the browser bundle in dist/lace-browser (needs npm)
	@$(BIN)/python web/bundle.py

screenshots: $(READY) ## take the pictures of the documentation again
	@$(BIN)/python tools/take_screenshots.py

SECONDS_EACH ?= 120
fuzz: $(READY) ## fuzz every target for SECONDS_EACH seconds (default 120)
	@$(PIP) --group fuzz
	@for target in fuzz/fuzz_*.py; do $(BIN)/python $$target -max_total_time=$(SECONDS_EACH) || exit 1; done

SECONDS ?= 60
soak: $(READY) ## run seeded exchanges with an adversary for SECONDS seconds (default 60)
	@$(BIN)/python tools/soak.py --seconds $(SECONDS)

clean: ## remove everything that was set up or built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
