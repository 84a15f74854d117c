// Command gpucheck is the check for a machine with an NVIDIA GPU: it takes a CUDA build of ONNX Runtime, proves that the
// provider runs the graphs, compares logits and gradients with the CPU, and measures chains, scoring and a training
// step beside PyTorch on the same card. With -provider cpu it does the same without a GPU.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/jempipe/jempipe/bench/peers"
	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		os.Exit(1)
	}
}

// check is a run of the program.
type check struct {
	provider string
	rt, cpu  *ort.Runtime
	torch    *peers.Torch // nil where it is left out
	engines  []string
	budget   time.Duration
	out      io.Writer
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("gpucheck", flag.ContinueOnError)
	folder := flags.String("ort", "", "folder of the ONNX Runtime library and its providers; empty: the library that jempipe finds")
	provider := flags.String("provider", "cuda", "cuda or cpu")
	python := flags.String("python", "", "interpreter of an environment with PyTorch; empty: it is left out")
	names := flags.String("nets", "", "networks, comma-separated; empty: all, on the CPU without the largest")
	engines := flags.String("engines", "onnxruntime", "engines of the training steps, comma-separated; gorgonia's gradients are the CPU's in any case")
	budget := flags.Duration("budget", 3*time.Second, "time of each measurement; at least two runs are made in any case")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *provider != "cuda" && *provider != "cpu" {
		return fault.New(fault.Usage, "-provider", "%q; wanted cuda or cpu", *provider)
	}
	nets, err := peers.Find(*names, *provider != "cpu")
	if err != nil {
		return err
	}
	file, err := library(*folder)
	if err != nil {
		return err
	}
	c := &check{provider: *provider, engines: strings.Split(*engines, ","), budget: *budget, out: out}
	if c.rt, err = ort.Open(ort.Config{Library: file, Provider: *provider}, nil); err != nil {
		return advised(err)
	}
	defer c.rt.Close()
	if c.cpu, err = ort.Open(ort.Config{Library: file, Provider: "cpu"}, nil); err != nil {
		return err
	}
	defer c.cpu.Close()
	lib := c.rt.Info().Library
	fmt.Fprintf(out, "ONNX Runtime %s (%s), provider %s\n", lib.Version, lib.Path, *provider)
	if err := c.startTorch(ctx, *python); err != nil {
		return err
	}
	if c.torch != nil {
		defer c.torch.Close()
	}
	for _, net := range nets {
		if err := c.network(ctx, net); err != nil {
			return fmt.Errorf("network %s: %w", net.Name, err)
		}
	}
	fmt.Fprintln(out, "all checks passed")
	return nil
}

// advised is the error of a provider that does not work, with what to do about it here.
func advised(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	advice := ""
	switch missing := strings.Contains(f.What, "cannot open shared object file"); {
	case missing && strings.Contains(f.What, "libcuda.so"):
		advice = "run it on a machine with an NVIDIA GPU and its driver: libcuda.so comes with the driver"
	case missing:
		advice = "name the folders of the CUDA 13 and cuDNN 9 libraries: make gpu-check CUDA_LIBS=FOLDER:FOLDER, or run make gpu-libs"
	case strings.Contains(f.What, "build without it"), strings.Contains(f.What, "not enabled in this build"):
		advice = "take a build of ONNX Runtime with CUDA: make gpu-libs fetches one, make gpu-check ORT_CUDA=FOLDER names another"
	default:
		return err
	}
	other := *f
	return other.Do("%s", advice)
}

// library gives the file in the folder that was named.
func library(folder string) (string, error) {
	if folder == "" {
		return "", nil
	}
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() {
		return "", fault.New(fault.Usage, folder, "no such folder; wanted the folder of a build of ONNX Runtime").Do("see docs/performance.md for where to get one with CUDA")
	}
	for _, name := range []string{"libonnxruntime.so", "libonnxruntime.so.1", "libonnxruntime.so.1.*"} {
		if files, err := filepath.Glob(filepath.Join(folder, name)); err == nil && len(files) > 0 {
			return files[len(files)-1], nil
		}
	}
	return "", fault.New(fault.Usage, folder, "there is no libonnxruntime.so in it").Do("put the library and its providers (libonnxruntime_providers_shared.so, libonnxruntime_providers_cuda.so) into one folder")
}

func (c *check) startTorch(ctx context.Context, python string) error {
	var err error
	c.torch, err = peers.StartTorch(ctx, python, c.provider, c.rt.Info().Threads)
	switch {
	case errors.Is(err, peers.ErrNotInstalled):
		fmt.Fprintln(c.out, peers.LeftOut)
		return nil
	case err == nil:
		fmt.Fprintln(c.out, c.torch.About)
	}
	return err
}

// network makes all checks and measurements of one network.
func (c *check) network(ctx context.Context, net peers.Net) error {
	fmt.Fprintf(c.out, "\n%s\n", net.Name)
	for _, part := range []func(context.Context, peers.Net) error{c.graphs, c.scoring, c.chains, c.steps} {
		if err := part(ctx, net); err != nil {
			return err
		}
	}
	return nil
}
