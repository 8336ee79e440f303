# Two commands do everything: `make demo` and `make test`.  Both set up a virtual environment of their own first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# With a GPU the same commands also install what measures on it.
EXTRAS := cuda,notebooks,dev$(if $(wildcard /dev/nvidia0),$(shell $(PYTHON) -c 'import torch' 2>/dev/null || echo ,gpu))

.PHONY: demo case test browser lint check bench bench-gpu pairs fuzz clean

demo: $(VENV)/ready
	$(BIN)/attr run --variant math_only --out recordings/demo --overwrite

test: $(VENV)/ready browser
	$(BIN)/python -m pytest -n auto

# The report's page is tested in a real Chromium.  As root (a container, CI) Debian's is installed when there is none.
browser:
	@for name in "$$CHROMIUM" chromium chromium-browser google-chrome google-chrome-stable; do \
	    command -v "$$name" >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "no Chromium: installing Debian's, for the tests of the report"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	else echo "no Chromium: the tests of the report's page are skipped; install one, or name it in CHROMIUM"; fi

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

# The README's worked attribution from its committed recording, drawn into case.svg.
case: $(VENV)/ready
	$(BIN)/attr versus h200-h20-design full h20_block_q_1 h20_block_q_2 h20_unfused_topk h20_unfused_deep_gemm \
	    --unfused h20_unfused_topk --plot case.svg

bench: $(VENV)/ready
	$(BIN)/python -m bench

bench-gpu: $(VENV)/ready
	$(BIN)/python -m bench.goals index-topk-goals.json
	ATTR_BENCH_OUT=. $(BIN)/python -m bench topk_gpu

# Every pair of flag values compiles or is refused: minutes.
pairs: $(VENV)/ready
	$(BIN)/python -m bench.pairs

fuzz: $(VENV)/ready
	$(BIN)/python -m bench.fuzz 600

clean:
	rm -rf $(VENV) build dist recordings

$(VENV)/ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	touch $@
