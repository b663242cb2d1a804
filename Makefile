.PHONY: run test test-portable test-arm64 test-avx512 test-browser lint race ci generate gputest

run:
	go run ./cmd/trainctl run configs/mnist-ddp.toml

test:
	go test ./...

# What other systems than Linux use: no futexes, no sealed memory, no /proc.
test-portable:
	GOFLAGS=-tags=portable go test ./...

test-arm64:
	bash .ci/arm64

# Kernels at AVX-512 on a CPU without it. PACKAGES="gemm conv:TestLines" names some below core/engine/kernel, and tests.
test-avx512:
	bash .ci/avx512 $(PACKAGES)

# Needs Chromium; axe-core comes from npm.
test-browser:
	bash e2e/testdata/browser/run.sh

lint race:
	bash .ci/$@

ci:
	bash .ci/run

generate:
	go generate ./core/engine/kernel ./core/sdk/pb

# On a machine without a GPU this builds the tarball and says what would run.
gputest:
	bash gputest/build.sh
	bash gputest/run.sh
