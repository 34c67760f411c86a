# `make demo` and `make test` set everything up by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
REPORT_FORMATS := int8 bfloat16 fp8
# pytest runs on every core, so that each process has one to itself
PYTEST_ARGS ?=
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

.PHONY: help setup demo report test test-all lint clean

help:
	@echo 'make demo      train a small CNN, run its three training passes on the RTL, show the speed-ups'
	@echo 'make report    the same in int8, bfloat16 and FP8, side by side on one page'
	@echo 'make test      all tests but the full sweeps'
	@echo 'make test-all  with the full sweeps'
	@echo 'make lint      ruff and pyright'
	@echo 'make setup     only the virtual environment, in $(VENV)'
	@echo 'make clean     remove what the above made'

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Skiptile needs Python 3.11 or newer, not " + sys.version.split()[0] + "; set PYTHON=...")'
	@echo 'setting up $(VENV) (about a minute)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[sim,fpga]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[sim,fpga,dev]'
	@touch $@

demo: setup
	@mkdir -p out
	$(BIN)/skiptile run designs/tile4x4.toml --workload digits-cnn --html out/digits.html --json out/digits.json

report: setup
	@mkdir -p out
	for formats in $(REPORT_FORMATS); do \
	  $(BIN)/skiptile run designs/tile4x4.toml --workload digits-cnn --formats $$formats \
	    --json out/digits-$$formats.json || exit 1; \
	done
	$(BIN)/skiptile report $(REPORT_FORMATS:%=out/digits-%.json) --html out/report.html

test: $(VENV)/.installed-dev
	$(PYTEST) -m 'not exhaustive'

test-all: $(VENV)/.installed-dev
	$(PYTEST)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/pyright

clean:
	rm -rf $(VENV) out build dist
