# SPDX-License-Identifier: MIT
# A thin front for Meson: every rule sets a build folder up when needed and runs ninja or the tests.
BUILD := build
MESON := meson
JOBS  := $(shell nproc 2>/dev/null || echo 2)

.PHONY: all
all: $(BUILD)/.setup
	@ninja -C $(BUILD)

# $(1) folder, $(2) arguments of meson setup. Sources are discovered at configure time, so a folder
# whose list of sources has changed is configured again.
.PHONY: FORCE
$(BUILD)/.setup: FORCE
	@scripts/setup-build $(BUILD)

.PHONY: clean
clean:
	rm -rf build build-*
