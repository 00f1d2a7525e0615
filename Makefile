# SPDX-License-Identifier: MIT
# A thin front for Meson. `make run` and `make test` install what is missing (Debian packages).
BUILD  := build
MODEL  ?= models/tiny-moe.gguf
PROMPT ?= Once upon a time
MEMORY ?= 14M
PREFIX ?= /usr/local
export PATH := $(CURDIR)/scripts:$(PATH)

.PHONY: all run test test-web check install clean asan tsan arm fuzz valgrind clang full release format help

all: ## build build/smol
	@scripts/need build
	@[ -x $(BUILD)/smol ] || echo "building $(BUILD)/smol: some two minutes on two cores"
	@scripts/setup-build $(BUILD) --prefix $(PREFIX)
	@ninja -C $(BUILD) --quiet smol

run: all ## continue a text with the small model of this repository, experts paged from disk
	@echo "smol run $(MODEL) --memory $(MEMORY) --raw -n 200 -p \"$(PROMPT)\""
	@printf '\n%s' "$(PROMPT)"
	@$(BUILD)/smol run $(MODEL) --memory $(MEMORY) --raw -n 200 -p "$(PROMPT)"

test: ## everything that is checked at each change; ends with "N passed, N failed"
	@scripts/need build test
	@scripts/run-tests native parsers arm

test-web: ## the server with the openai client, its page in Chromium (Debian, npm)
	@scripts/need build
	@-scripts/need web
	@scripts/run-tests web

check: all ## layers, symbols, banned functions, sizes, the one-command build
	@scripts/need test
	@meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite checks

install: all ## install program, library, header and manual page below PREFIX
	@ninja -C $(BUILD) --quiet smol smol.1 smol.bash _smol smol.fish src/libsmol.a
	@meson install -C $(BUILD) --no-rebuild

clean: ## remove the build folders
	rm -rf build build-*

asan tsan clang valgrind: ## the tests under sanitizers, valgrind, another compiler
	@scripts/need build $(filter clang valgrind,$@)
	@scripts/run-tests $@

arm: ## the tests under emulated 64-bit ARM: four processors
	@scripts/need build test
	@scripts/run-tests arm-full

fuzz: ## fuzz every parser, a minute each (FUZZ_SECONDS)
	@scripts/need build clang
	@scripts/fuzz $${FUZZ_SECONDS:-60}

full: ## the slow tests: the full cross of pools, threads, chunks and levels
	@scripts/need build
	@scripts/run-tests slow

release: ## one static file that runs on any Linux, for x86-64 and for 64-bit ARM: build-musl*/smol-static
	@scripts/need build musl
	@$(MAKE) --no-print-directory static-x86_64 static-aarch64

static-%:
	@scripts/setup-build build-musl-$* --cross-file cross/$*-musl.ini
	@ninja -C build-musl-$* --quiet smol
	@$(if $(filter aarch64,$*),aarch64-linux-gnu-)strip -o build-musl-$*/smol-static build-musl-$*/smol
	@ls -l build-musl-$*/smol-static

format: ## format the sources you changed
	@scripts/need format
	@git diff --name-only HEAD -- '*.c' '*.h' | xargs -r clang-format -i

help: ## this list
	@sed -n 's/^\([a-z ]*\):.*## \(.*\)/  \1: \2/p' Makefile
