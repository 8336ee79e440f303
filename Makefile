# Two commands do everything: `make demo` and `make test`.  Both set up a virtual environment of their own first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# With a GPU the same commands also install what measures on it.
EXTRAS := cuda,notebooks,dev$(if $(wildcard /dev/nvidia0),$(shell $(PYTHON) -c 'import torch' 2>/dev/null || echo ,gpu))

.PHONY: demo test lint check bench fuzz clean

demo: $(VENV)/ready
	$(BIN)/attr run --variant math_only --out recordings/demo --overwrite

test: $(VENV)/ready
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

bench: $(VENV)/ready
	$(BIN)/python -m bench

fuzz: $(VENV)/ready
	$(BIN)/python -m bench.fuzz 600

clean:
	rm -rf $(VENV) build dist recordings

$(VENV)/ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	touch $@
