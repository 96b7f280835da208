# Every target sets up what it needs in $(VENV) and may be run again without harm.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Modules of other projects stay out. A path that is not ASCII is read as it was written, also in the
# C locale: there Python chooses a better one by itself, unless LC_ALL forbids it.
unexport PYTHONPATH PYTHONHOME
ifneq ($(filter C POSIX,$(LC_ALL)),)
unexport LC_ALL
endif

.PHONY: demo demo-room demo-lake test test-long test-quick check-bare check-debian check-wheels lint bench bench-lake docs workbench bundle
.PHONY: site site-serve matrix screenshots fuzz soak attack golden lake-cluster lock release-check clean help
.DEFAULT_GOAL := help

# $(call set-up,test lint): tools/set_up.py decides what is left to do, and says it.
NEEDS := lace needs Python 3.11 or later. Choose one, for example: make PYTHON=python3.12
define set-up
@command -v "$(PYTHON)" > /dev/null || { echo "There is no $(PYTHON); $(NEEDS)"; exit 1; }
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "This is Python %d.%d; $(NEEDS)" % sys.version_info[:2])'
@"$(PYTHON)" tools/set_up.py --into "$(VENV)" $(1)
endef

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo-room: ## a notes room between two processes, one of them killed on the way (a small set-up)
	$(call set-up,base)
	@"$(BIN)/python" -m lace demo

demo: demo-room ## the same, then a small lake on Spark (about 630 MB to fetch, 1.1 GB on disk)
	@echo
	@! "$(PYTHON)" tools/set_up.py --supports lake || $(MAKE) --no-print-directory demo-lake

demo-lake: ## the second half of the demo alone: a small lake on Spark
	@echo "Next: the same records in bulk, on Spark. Its set-up fetches up to 630 MB, once, and takes"
	@echo "1.1 GB on disk. To stop here, press Ctrl-C."
	$(call set-up,lake)
	@"$(BIN)/python" -m lace lake demo

# Tests run side by side on all cores; those with Spark share one session in one process.
PYTEST := "$(BIN)/python" -m pytest --numprocesses auto --dist loadgroup --durations 20 --durations-min 8
test: ## run all tests but the longest
	$(call set-up,test)
	@"$(BIN)/python" tools/ensure_browser.py
	@$(PYTEST) -m "not long"

test-long: ## run the longest tests: kills and resumes of a lake, set-ups, Firefox, the whole site
	$(call set-up,test)
	@"$(BIN)/python" tools/ensure_browser.py
	@$(PYTEST) -m long

QUICK := -m "not spark and not browser and not slow and not long" --ignore tests/lake --ignore tests/browser
test-quick: ## run most tests, without Spark and browser and with fewer random cases: about ten minutes
	$(call set-up,test-quick)
	@LACE_TEST_EFFORT=0.25 $(PYTEST) $(QUICK)

check-bare: ## run the two commands of the README with an empty home and nothing cached
	@"$(PYTHON)" tools/check_bare.py

SUITE ?= sid
DEBIAN_PYTHON ?= python3
check-debian: ## the same in a minimal Debian made for it (SUITE=sid DEBIAN_PYTHON=python3.15; needs root)
	@"$(PYTHON)" tools/check_bare.py --debian "$(SUITE)" --python "$(DEBIAN_PYTHON)"

check-wheels: ## ask the registry which dependencies lack a wheel for a supported Python or system
	$(call set-up,release)
	@"$(BIN)/python" tools/check_wheels.py

lint: ## check style, types and layers
	$(call set-up,lint)
	@"$(BIN)/python" -m ruff check .
	@"$(BIN)/python" -m ruff format --check .
	@"$(BIN)/python" -m mypy
	@"$(BIN)/lint-imports"
	@"$(BIN)/python" tools/check_web.py

bench: ## measure, as ratios against floors and competitors in the same run
	$(call set-up,bench)
	@"$(BIN)/python" bench/run.py
	@"$(BIN)/python" bench/exchange_sizes.py
	@"$(BIN)/python" bench/rules

bench-lake: ## measure the lake: each part beside its floor, an ingest of a million, an exchange
	$(call set-up,bench)
	@"$(BIN)/python" bench/lake.py
	@"$(BIN)/python" bench/lake_ingest.py
	@"$(BIN)/python" bench/lake_end_to_end.py
	@"$(BIN)/python" bench/lake_peer.py --differences 5000 --cut 300

lock: ## renew the pins in constraints.txt and locks/ (UPGRADE=yes takes the newest of everything)
	$(call set-up,lake release)
	@"$(BIN)/python" tools/lock.py $(if $(UPGRADE),--upgrade)

release-check: ## build the packages, look at them and try them; say what is left to do by hand
	$(call set-up,release)
	@"$(BIN)/python" tools/release_check.py

golden: ## at a release: keep a store, a link's memory and a lake of this version, for later ones to open
	$(call set-up,test)
	@"$(BIN)/python" tools/golden.py

lake-cluster: ## run the lake on a Spark cluster of three processes, and compare
	$(call set-up,lake)
	@"$(BIN)/python" tools/lake_cluster.py

docs: ## write the generated pages again
	$(call set-up,test)
	@"$(BIN)/python" tools/generate_docs.py
	@"$(BIN)/python" tools/record_first.py
	@"$(BIN)/python" tools/run_notebook.py

site: ## make the site of the documentation in build/site
	$(call set-up,site)
	@"$(BIN)/python" tools/make_site.py

SITE_PORT ?= 8000
site-serve: ## show the site on this machine and follow changes (SITE_PORT=8000)
	$(call set-up,site)
	@"$(BIN)/python" tools/make_site.py serve --port "$(SITE_PORT)"

matrix: ## try this engine with its own conformance kit; write docs/protocol/matrix.md
	$(call set-up,test-quick)
	@"$(BIN)/python" tools/kit_matrix.py

workbench: ## see laces converge, step by step, in a browser
	$(call set-up,workbench)
	@"$(BIN)/python" -m lace workbench

bundle: ## make the browser bundle in dist/lace-browser (needs npm)
	$(call set-up,base)
	@"$(BIN)/python" web/bundle.py

screenshots: ## take the pictures of the documentation again
	$(call set-up,test)
	@"$(BIN)/python" tools/take_screenshots.py

SECONDS_EACH ?= 120
fuzz: ## fuzz every target for SECONDS_EACH seconds (default 120)
	$(call set-up,fuzz)
	@for target in fuzz/fuzz_*.py; do "$(BIN)/python" $$target -max_total_time=$(SECONDS_EACH) || exit 1; done

SECONDS ?= 60
soak: ## run seeded exchanges with an adversary for SECONDS seconds (default 60)
	$(call set-up,test-quick)
	@"$(BIN)/python" tools/soak.py --seconds $(SECONDS)

attack: ## attack a server in every known way for SECONDS seconds each (default 60), and say what it did
	$(call set-up,test-quick)
	@"$(BIN)/python" tools/attack.py --seconds $(SECONDS)

clean: ## remove everything that was set up or built
	test ! -e "$(VENV)/pyvenv.cfg" || rm -rf "$(VENV)"
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
