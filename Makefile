.PHONY: run test lint race ci generate

run:
	go run ./cmd/trainctl run configs/mnist-ddp.toml

test:
	go test ./...

lint race:
	bash .ci/$@

ci:
	bash .ci/run

generate:
	go generate ./core/kernel ./core/sdk/pb
