package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"

	ort "github.com/yalue/onnxruntime_go"
)

// Auto chooses the first accelerator that works, else the CPU.
const Auto = "auto"

// provider is what runs a model: the CPU or an accelerator.
type provider struct {
	name      string
	automatic bool   // tried for Auto
	file      string // the library that ONNX Runtime loads it from, beside its own
	options   []option
	defaults  map[string]string
	attach    func(o *ort.SessionOptions, options map[string]string) error
	advice    string // what to do when it does not work
}

// ONNX Runtime's own defaults for CUDA, TF32 and an algorithm chosen by timing, give ten bits of precision and another
// result in another run.
var cudaDefaults = map[string]string{"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}

// providers in the order in which Auto tries them.
var providers = []provider{
	{
		name: "cuda", automatic: true, attach: attachCUDA, file: "libonnxruntime_providers_cuda.so",
		options: []option{
			{"arena_extend_strategy", []string{"kNextPowerOfTwo", "kSameAsRequested"}},
			{"cudnn_conv1d_pad_to_nc1d", onOff},
			{"cudnn_conv_algo_search", []string{"EXHAUSTIVE", "HEURISTIC", "DEFAULT"}},
			{"cudnn_conv_use_max_workspace", onOff},
			{"device_id", nil},
			{"do_copy_in_default_stream", onOff},
			{"enable_cuda_graph", onOff},
			{"enable_skip_layer_norm_strict_mode", onOff},
			{"fuse_conv_bias", onOff},
			{"gpu_mem_limit", nil},
			{"prefer_nhwc", onOff},
			{"sdpa_kernel", nil},
			{"tunable_op_enable", onOff},
			{"tunable_op_max_tuning_duration_ms", nil},
			{"tunable_op_tuning_enable", onOff},
			{"use_ep_level_unified_stream", onOff},
			{"use_tf32", onOff},
		},
		defaults: cudaDefaults,
		advice:   "give a CUDA build of ONNX Runtime with --onnxruntime, with CUDA and cuDNN on the library path, or use provider cpu",
	},
	{
		name: "tensorrt", attach: attachTensorRT, file: "libonnxruntime_providers_tensorrt.so",
		options: []option{
			{"device_id", nil},
			{"trt_auxiliary_streams", nil},
			{"trt_bf16_enable", onOff},
			{"trt_build_heuristics_enable", onOff},
			{"trt_builder_optimization_level", []string{"0", "1", "2", "3", "4", "5"}},
			{"trt_context_memory_sharing_enable", onOff},
			{"trt_cuda_graph_enable", onOff},
			{"trt_detailed_build_log", onOff},
			{"trt_engine_cache_enable", onOff},
			{"trt_engine_cache_path", nil},
			{"trt_engine_cache_prefix", nil},
			{"trt_engine_hw_compatible", onOff},
			{"trt_force_sequential_engine_build", onOff},
			{"trt_force_timing_cache", onOff},
			{"trt_fp16_enable", onOff},
			{"trt_int8_calibration_table_name", nil},
			{"trt_int8_enable", onOff},
			{"trt_layer_norm_fp32_fallback", onOff},
			{"trt_max_partition_iterations", nil},
			{"trt_max_workspace_size", nil},
			{"trt_min_subgraph_size", nil},
			{"trt_op_types_to_exclude", nil},
			{"trt_profile_max_shapes", nil},
			{"trt_profile_min_shapes", nil},
			{"trt_profile_opt_shapes", nil},
			{"trt_sparsity_enable", onOff},
			{"trt_tactic_sources", nil},
			{"trt_timing_cache_enable", onOff},
			{"trt_timing_cache_path", nil},
		},
		advice: "give a TensorRT build of ONNX Runtime with --onnxruntime, with TensorRT, CUDA and cuDNN on the library path, or use provider " +
			"cuda or cpu",
	},
	{
		name: "cpu", automatic: true,
		attach: func(*ort.SessionOptions, map[string]string) error { return nil },
		advice: remedy,
	},
}

func providerNames() []string {
	var names []string
	for _, p := range providers {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

func lookup(name string) (provider, bool) {
	at := slices.IndexFunc(providers, func(p provider) bool { return p.name == name })
	if at < 0 {
		return provider{}, false
	}
	return providers[at], true
}

// own are the options that the provider takes, over its defaults.
func (p provider) own(options map[string]string) map[string]string {
	list := map[string]string{}
	for _, o := range p.options {
		if value, ok := options[o.key]; ok {
			list[o.key] = value
		} else if value, ok := p.defaults[o.key]; ok {
			list[o.key] = value
		}
	}
	return list
}

func attachCUDA(o *ort.SessionOptions, options map[string]string) error {
	c, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer c.Destroy()
	if err := c.Update(options); err != nil {
		return err
	}
	return o.AppendExecutionProviderCUDA(c)
}

// attachTensorRT adds CUDA behind TensorRT, for the operators that TensorRT does not take.
func attachTensorRT(o *ort.SessionOptions, options map[string]string) error {
	t, err := ort.NewTensorRTProviderOptions()
	if err != nil {
		return err
	}
	defer t.Destroy()
	if err := t.Update(options); err != nil {
		return err
	}
	if err := o.AppendExecutionProviderTensorRT(t); err != nil {
		return err
	}
	behind := maps.Clone(cudaDefaults)
	if id, ok := options["device_id"]; ok {
		behind["device_id"] = id
	}
	return attachCUDA(o, behind)
}

// probeModel is y = MatMul(x, x) for float32 x, y of shape [2,2]: ModelProto with IR version 7 and opset 13.
var probeModel = []byte("\x08\x07:@\x0a\x11\x0a\x01x\x0a\x01x\x12\x01y\"\x06MatMul\x12\x01g" +
	"Z\x13\x0a\x01x\x12\x0e\x0a\x0c\x08\x01\x12\x08\x0a\x02\x08\x02\x0a\x02\x08\x02" +
	"b\x13\x0a\x01y\x12\x0e\x0a\x0c\x08\x01\x12\x08\x0a\x02\x08\x02\x0a\x02\x08\x02B\x02\x10\x0d")

// errAbsent marks a provider that the library is built without.
var errAbsent = errors.New("absent")

type absent struct{ error }

func (absent) Is(target error) bool { return target == errAbsent }

// present says whether the library has the provider at all.
func (p provider) present(lib Library) error {
	if p.file == "" || goruntime.GOOS != "linux" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(lib.Path), p.file)); err != nil {
		return absent{fmt.Errorf("the library is a build without it (no %s beside it)", p.file)}
	}
	return nil
}

// probe runs a small model on a provider. That a provider is compiled in, or that its options can be made, says
// nothing: only a run shows that its libraries load and its device answers. The CPU is not allowed to step in.
func probe(lib Library, p provider, options map[string]string) error {
	if err := p.present(lib); err != nil {
		return err
	}
	if p.name != "cpu" {
		strict := map[string]string{"session.disable_cpu_ep_fallback": "1"}
		for key, value := range options {
			strict[key] = value
		}
		options = strict
	}
	r := &Runtime{provider: p, options: options, info: Info{Provider: p.name, Threads: 1}}
	s, err := r.load(probeModel, SessionOptions{Name: "probe model"})
	if err != nil {
		return err
	}
	defer s.Close()
	x, err := Float32([]int64{2, 2}, []float32{1, 2, 3, 4})
	if err != nil {
		return err
	}
	defer x.Close()
	out := []*Tensor{nil}
	if err := s.Run(context.Background(), []*Tensor{x}, out); err != nil {
		return err
	}
	defer out[0].Close()
	if got, want := out[0].Data(), []float32{7, 10, 15, 22}; !slices.Equal(got, want) {
		return fmt.Errorf("a product of two matrices came out as %v, wanted %v", got, want)
	}
	return nil
}

// ProviderStatus says whether a provider works on this machine with a library, and why not.
type ProviderStatus struct {
	Name   string
	Works  bool
	Reason string // empty where it works
}

// Providers tries every known provider with a small model.
func Providers(lib Library) []ProviderStatus {
	var list []ProviderStatus
	openErr := enter(lib)
	if openErr == nil {
		defer leave()
	}
	for _, name := range providerNames() {
		p, _ := lookup(name)
		err := openErr
		if err == nil {
			err = probe(lib, p, nil)
		}
		status := ProviderStatus{Name: name, Works: err == nil}
		if err != nil {
			status.Reason = reason(err)
		}
		list = append(list, status)
	}
	return list
}
