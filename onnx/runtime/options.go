package runtime

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/jempipe/jempipe/internal/nearest"
)

// option is a key of Config.Options. ONNX Runtime takes any session key without a word, and tells a misspelt provider
// key apart from no failure, so that the keys are checked against these lists.
type option struct {
	key    string
	values []string // the valid values; nil for any
}

var onOff = []string{"0", "1"}

// sessionOptions are taken with every provider. Flushing denormals to zero (session.set_denormal_as_zero) is left out:
// ONNX Runtime sets it in threads, those of Go's scheduler among them, so that results would depend on which thread a
// goroutine runs on. The three without a dot are settings that ONNX Runtime has a function
// for, the others are its session configuration entries.
var sessionOptions = []option{
	{"cpu_arena", onOff},
	{"graph_optimization", []string{"disable", "basic", "extended", "all"}},
	{"memory_pattern", onOff},
	{"mlas.disable_kleidiai", onOff},
	{"mlas.enable_gemm_fastmath_arm64_bfloat16", onOff},
	{"optimization.disable_specified_optimizers", nil},
	{"optimization.enable_cast_chain_elimination", onOff},
	{"optimization.enable_gelu_approximation", onOff},
	{"session.disable_aot_function_inlining", onOff},
	{"session.disable_cpu_ep_fallback", onOff},
	{"session.disable_double_qdq_remover", onOff},
	{"session.disable_prepacking", onOff},
	{"session.disable_quant_qdq", onOff},
	{"session.dynamic_block_base", nil},
	{"session.enable_quant_qdq_cleanup", onOff},
	{"session.force_spinning_stop", onOff},
	{"session.intra_op.allow_spinning", onOff},
	{"session.intra_op_thread_affinities", nil},
	{"session.qdqisint8allowed", onOff},
	{"session.use_device_allocator_for_initializers", onOff},
}

var levels = map[string]ort.GraphOptimizationLevel{
	"disable":  ort.GraphOptimizationLevelDisableAll,
	"basic":    ort.GraphOptimizationLevelEnableBasic,
	"extended": ort.GraphOptimizationLevelEnableExtended,
	"all":      ort.GraphOptimizationLevelEnableAll,
}

// CheckConfig gives what is wrong with a configuration, one line each: names, keys and values that are not known. It
// needs no library.
func CheckConfig(cfg Config) []string {
	var problems []string
	names := append([]string{Auto}, providerNames()...)
	name := cfg.Provider
	if name == "" {
		name = Auto
	}
	if !slices.Contains(names, name) {
		problems = append(problems, fmt.Sprintf("provider %q is not known%s; wanted one of %s",
			name, meant(name, names), strings.Join(names, ", ")))
	}
	if cfg.Threads < 0 {
		problems = append(problems, fmt.Sprintf("threads %d; wanted 0 (as many as there are cores to use) or more", cfg.Threads))
	}
	for _, key := range sorted(cfg.Options) {
		if problem := checkOption(name, key, cfg.Options[key]); problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems
}

// checkOption checks one option for a provider's name, which may be auto or unknown.
func checkOption(name, key, value string) string {
	known, elsewhere := slices.Clone(sessionOptions), ""
	for _, p := range providers {
		if name == p.name || name == Auto && p.automatic {
			known = append(known, p.options...)
		} else if slices.ContainsFunc(p.options, func(o option) bool { return o.key == key }) {
			elsewhere = p.name
		}
	}
	at := slices.IndexFunc(known, func(o option) bool { return o.key == key })
	switch {
	case at < 0 && elsewhere != "":
		return fmt.Sprintf("option %q belongs to provider %s, and the provider is %s", key, elsewhere, name)
	case at < 0:
		keys := make([]string, len(known))
		for i, o := range known {
			keys[i] = o.key
		}
		sort.Strings(keys)
		return fmt.Sprintf("option %q is not known for provider %s%s", key, name, meant(key, keys))
	case known[at].values != nil && !slices.Contains(known[at].values, value):
		return fmt.Sprintf("option %q is %q; wanted one of %s", key, value, strings.Join(known[at].values, ", "))
	}
	return ""
}

func meant(name string, known []string) string {
	if near := nearest.To(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// configure makes the native session options for a provider. The caller destroys them.
func configure(p provider, options map[string]string, threads int) (*ort.SessionOptions, error) {
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	steps := []func() error{
		func() error { return o.SetExecutionMode(ort.ExecutionModeSequential) },
		func() error { return o.SetInterOpNumThreads(1) },
		func() error { return o.SetIntraOpNumThreads(threads) },
		func() error { return o.SetLogSeverityLevel(ort.LoggingLevelFatal) },
		func() error { return o.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll) },
	}
	for _, key := range sorted(options) {
		if slices.ContainsFunc(sessionOptions, func(known option) bool { return known.key == key }) {
			steps = append(steps, func() error { return set(o, key, options[key]) })
		}
	}
	steps = append(steps, func() error { return p.attach(o, p.own(options)) })
	for _, step := range steps {
		if err := step(); err != nil {
			_ = o.Destroy()
			return nil, err
		}
	}
	return o, nil
}

func set(o *ort.SessionOptions, key, value string) error {
	switch key {
	case "cpu_arena":
		return o.SetCpuMemArena(value == "1")
	case "memory_pattern":
		return o.SetMemPattern(value == "1")
	case "graph_optimization":
		return o.SetGraphOptimizationLevel(levels[value])
	}
	return o.AddSessionConfigEntry(key, value)
}

func sorted(options map[string]string) []string {
	keys := make([]string, 0, len(options))
	for key := range options {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
