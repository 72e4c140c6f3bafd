# Run these with Python 3.11 or newer, and Java 17 or newer:
#
#   make demo      compile an example, keep its views of real input in one SQLite file, apply a batch of changes, move the
#                  state to a PySpark job, apply another batch on Spark, verify
#   make check     run linters, type checks and the quick tests
#   make test      run linters, type checks and the tests of a day with three workers   (make test ARGS='-n 0' with one)
#
#   make demo-switches    run several processes, kill one and show its recovery
#   make demo-network     run six nodes of a network, let a link and nodes fail and return, and draw what happens
#
# For developers:
#
#   make bench     run the benchmarks, write benchmarks/results.json and docs/performance.md     (make bench ARGS=--quick on small data)
#   make gmark     generate graphs in the manner of gMark, check and measure path queries on them (make gmark ARGS=--quick
#                  on small graphs, ARGS='--data DIR' on given ones)
#   make bench-social    measure the social network of a contest (make bench-social ARGS="--data DIR --size 1")
#   make bench-network   measure programs on nodes: tuples kept, messages, bytes (make bench-network ARGS=--quick on small networks,
#                  ARGS=--document writes benchmarks/network.json, and tables and a picture in docs/)
#   make nightly   run all tests, with new random programs and more kills of jobs; takes two hours or more
#                  (make nightly SHARE=3/10 runs the third of ten shares of the night's tests; SEED=N repeats random programs)
#   make golden    regenerate all golden files
#   make integrations   test the examples for other tools, such as Airflow and pre-commit, and pages in a browser
#                  (make integrations LANE=connectors tests tables written by Spark's connectors only)
#   make docs      build the documentation in build/site
#   make pictures  redraw the diagrams of the documentation
#   make lint      run ruff, mypy and import-linter
#   make java      print which Java the other targets use
#   make venv      set up the virtual environment, with the versions of requirements-dev.txt
#   make clean     remove everything that the targets made

SHELL := /bin/sh
.SHELLFLAGS := -ec
.DEFAULT_GOAL := demo
.PHONY: demo demo-switches demo-network check test integrations nightly bench gmark bench-network bench-social golden docs pictures lint java venv clean

VENV := $(CURDIR)/.venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
ARGS ?=
SHARE ?=
LANE ?=
SEED ?=

# Driver and Python workers of a Spark job must be the interpreter that has DuckDB and PyArrow, and no other Spark's.
export PYSPARK_PYTHON := $(PY)
export PYSPARK_DRIVER_PYTHON := $(PY)
export SPARK_LOCAL_IP ?= 127.0.0.1
export PATH := $(VENV)/bin:$(PATH)
unexport SPARK_HOME PYTHONHOME
# Tests start a thousand interpreters: none of them may compile again what an earlier one has compiled.
unexport PYTHONDONTWRITEBYTECODE

WITH_JAVA := JAVA_HOME="$$("$(PY)" .ci/java_home.py)" && export JAVA_HOME

# Of tests that may take longer than those of the day.
LONG := --timeout 1800 -o faulthandler_timeout=2400

demo: $(READY)
	@$(WITH_JAVA) && "$(PY)" examples/imports/demo.py $(ARGS)

demo-switches: $(READY)
	@$(WITH_JAVA) && "$(PY)" examples/switches/demo.py $(ARGS)

demo-network: $(READY)
	@$(WITH_JAVA) && "$(PY)" examples/network/demo.py $(ARGS)

check: lint
	@echo "== quick tests"
	@$(WITH_JAVA) && "$(PY)" -m pytest --numprocesses 2 --dist worksteal --quick $(ARGS)

test: java lint
	@echo "== tests"
	@$(WITH_JAVA) && "$(PY)" -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(ARGS)

integrations: $(READY)
	@echo "== tools of others"
	@$(WITH_JAVA) && FLINTLOG_INTEGRATIONS=1 "$(PY)" -m pytest "golden_tests/integrations/$(LANE)" $(LONG) $(ARGS)

# Any worker may run any test: those of one file would take one worker most of the night.
nightly: $(READY)
	@echo "== tests of the night"
	@$(WITH_JAVA) && FLINTLOG_NIGHTLY=1 FLINTLOG_SHARE="$(SHARE)" $(if $(SEED),FLINTLOG_SEED=$(SEED)) \
	    "$(PY)" -m pytest --numprocesses 2 --dist worksteal --max-worker-restart 0 $(LONG) $(ARGS)

bench: $(READY)
	@$(WITH_JAVA) && "$(PY)" benchmarks/bench.py $(ARGS)

gmark: $(READY)
	@$(WITH_JAVA) && "$(PY)" benchmarks/gmark.py $(ARGS)

bench-social: $(READY)
	@$(WITH_JAVA) && "$(PY)" benchmarks/social_case.py $(ARGS)

bench-network: $(READY)
	@"$(PY)" benchmarks/network.py $(ARGS)

golden: $(READY)
	@echo "== golden files, written anew"
	@$(WITH_JAVA) && "$(PY)" -m pytest --update-golden $(ARGS)

# Not with --quiet, by which --strict overlooks warnings.
docs: $(READY)
	@echo "== documentation, into build/site"
	@NO_MKDOCS_2_WARNING=1 "$(PY)" -m mkdocs build --strict

# What Mermaid draws of the diagrams in docs/, for pages that need no script and no network.
pictures: $(READY)
	@FLINTLOG_INTEGRATIONS=1 "$(PY)" -m pytest golden_tests/integrations/test_pictures.py --update-golden -rs

# Types are checked by package, as a user of the installed packages sees them.
lint: $(READY)
	@echo "== ruff check"
	@"$(PY)" -m ruff check .
	@echo "== ruff format --check"
	@"$(PY)" -m ruff format --check .
	@echo "== mypy --strict"
	@rm -rf build/lib build/types
	@"$(PY)" -m pip install --quiet --no-deps --no-build-isolation --target build/types .
	@MYPYPATH=build/types "$(PY)" -m mypy -p flintlog
	@PYTHONPATH=build/types "$(VENV)/bin/lint-imports" --no-cache --no-logo
	@MYPYPATH=build/types "$(PY)" -m mypy .ci/java_home.py .ci/docs_site.py examples/imports/demo.py
	@MYPYPATH=build/types:examples "$(PY)" -m mypy examples/switches/demo.py
	@MYPYPATH=build/types:examples:examples/network "$(PY)" -m mypy examples/network/demo.py
	@"$(PY)" -m mypy examples/routing/story.py
	@MYPYPATH=build/types "$(PY)" -m mypy examples/permissions_service/service.py examples/permissions_service/load.py
	@"$(PY)" -m mypy benchmarks/bench.py
	@MYPYPATH=build/types "$(PY)" -m mypy benchmarks/gmark.py benchmarks/network.py
	@MYPYPATH=build/types:examples/social_network "$(PY)" -m mypy benchmarks/social_case.py

venv: $(READY)

java: $(READY)
	@$(WITH_JAVA) && echo "== Java in $$JAVA_HOME"

$(READY): pyproject.toml requirements-dev.txt .ci/find-python
	@if [ ! -x "$(PY)" ]; then \
	    python="$$(.ci/find-python)"; \
	    echo "== virtual environment of $$python"; \
	    "$$python" -m venv "$(VENV)"; \
	fi
	@echo "== installing Flintlog and what it needs into .venv (a minute or so; log: build/venv.log)"
	@mkdir -p build
	@"$(PY)" -m pip install --disable-pip-version-check --constraint requirements-dev.txt \
	    --editable ".[dev]" >build/venv.log 2>&1 || { \
	    cat build/venv.log; \
	    echo "error: pip could not install what Flintlog needs; its log is above and in build/venv.log" >&2; \
	    exit 1; \
	}
	@touch "$@"

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
