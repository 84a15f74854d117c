package peers

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/train"
)

//go:embed jem_step.py
var script string

// ErrNotInstalled is the error of StartTorch where Python or PyTorch is missing.
var ErrNotInstalled = errors.New("PyTorch is not installed")

// LeftOut is the line for a run without PyTorch.
const LeftOut = "PyTorch is not installed, the comparison with it is left out: make bench-peer installs it (about 3 GB)"

// Torch is a Python process that makes the same steps with PyTorch. It is for use by one goroutine at a time.
type Torch struct {
	About  string // versions, device and threads
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors bytes.Buffer
}

// StartTorch starts PyTorch on a device, cpu or cuda, with a number of threads. python is the interpreter of the
// environment that PyTorch is installed in.
func StartTorch(ctx context.Context, python, device string, threads int) (*Torch, error) {
	if python == "" {
		return nil, ErrNotInstalled
	}
	if err := exec.CommandContext(ctx, python, "-c", "import numpy, torch").Run(); err != nil {
		return nil, fmt.Errorf("%w (%s -c 'import numpy, torch': %v)", ErrNotInstalled, python, err)
	}
	t := &Torch{cmd: exec.CommandContext(ctx, python, "-c", script, "--device", device, "--threads", fmt.Sprint(threads))}
	t.cmd.Stderr = &t.errors
	var err error
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = bufio.NewReader(out)
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	var about struct {
		Torch, Python, Device string
		Threads               int
	}
	if err := t.ask(map[string]any{"op": "about"}, &about); err != nil {
		_ = t.Close()
		return nil, err
	}
	t.About = fmt.Sprintf("PyTorch %s, Python %s, %s, %d threads", about.Torch, about.Python, about.Device, about.Threads)
	return t, nil
}

// ask sends a request and reads its answer.
func (t *Torch) ask(request map[string]any, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := t.in.Write(append(line, '\n')); err != nil {
		return t.gone(err)
	}
	text, err := t.out.ReadBytes('\n')
	if err != nil {
		return t.gone(err)
	}
	var failed struct{ Error string }
	if err := json.Unmarshal(text, &failed); err != nil {
		return fmt.Errorf("PyTorch's process answered %q, wanted a line of JSON", text)
	}
	if failed.Error != "" {
		return errors.New(failed.Error)
	}
	return json.Unmarshal(text, answer)
}

// gone is the error for a process that ended: the last line it wrote says why.
func (t *Torch) gone(err error) error {
	_ = t.in.Close()
	_ = t.cmd.Wait()
	lines := strings.Split(strings.TrimSpace(t.errors.String()), "\n")
	return fmt.Errorf("PyTorch's process ended (%w): %s", err, lines[len(lines)-1])
}

// tolerance bounds the relative difference of the two gradients of one batch: they are float32 sums in another order.
const tolerance = 1e-3

// Load builds a network in PyTorch, with the weights given, and proves it to be the same: its gradient of the log
// density of the rows x must be score.
func (t *Torch) Load(name string, a model.Arch, p model.Params, cfg train.Config, x, score []float32) error {
	dir, err := os.MkdirTemp("", "jempipe-peer-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	type param struct {
		Name  string `json:"name"`
		Shape []int  `json:"shape"`
	}
	var params []param
	var weights []float32
	for _, v := range p {
		params = append(params, param{v.Name, v.Shape})
		weights = append(weights, v.Data...)
	}
	if err := errors.Join(writeFloats(file("weights"), weights), writeFloats(file("x"), x)); err != nil {
		return err
	}
	s, o := cfg.Sampler, cfg.Optimizer
	var built struct{ Parameters int }
	if err := t.ask(map[string]any{
		"op": "net", "net": name, "arch": a, "params": params, "weights": file("weights"), "x": file("x"), "score": file("score"),
		"batch": cfg.BatchSize, "steps": s.Steps, "step_size": s.StepSize, "grad_clip": s.GradClip, "noise_std": s.NoiseStd, "range": s.Range,
		"buffer_size": s.BufferSize, "restart": s.Restart, "data_noise": cfg.DataNoise, "energy_l2": cfg.Loss.EnergyReg,
		"lr": o.LR, "betas": []float64{o.Beta1, o.Beta2}, "clip_norm": o.ClipNorm,
	}, &built); err != nil {
		return err
	}
	if built.Parameters != p.Count() {
		return fmt.Errorf("PyTorch's network %s has %d parameters, ours %d", name, built.Parameters, p.Count())
	}
	theirs, err := readFloats(file("score"))
	if err != nil {
		return err
	}
	if d := Difference(theirs, score); !(d <= tolerance) {
		return fmt.Errorf("the gradient of network %s differs from PyTorch's by %.2g of its norm, at most %g is wanted: the networks are not the same", name, d, tolerance)
	}
	return nil
}

// Time runs chains or steps ("chain", "step") of a network, eagerly or compiled ("eager", "compile"), and gives the time
// of each and the memory format that was faster. The first call for a network and mode tries and warms up first.
func (t *Torch) Time(name, mode, what string, repeats int) (took []time.Duration, note string, err error) {
	var answer struct {
		MS   []float64
		Note string
	}
	if err := t.ask(map[string]any{"op": "time", "net": name, "mode": mode, "what": what, "repeats": repeats}, &answer); err != nil {
		return nil, "", err
	}
	for _, ms := range answer.MS {
		took = append(took, time.Duration(ms*float64(time.Millisecond)))
	}
	return took, answer.Note, nil
}

// Close ends the process.
func (t *Torch) Close() error {
	_ = t.in.Close()
	return t.cmd.Wait()
}

// Difference is the Euclidean norm of a-b over that of b; NaN where the lengths differ.
func Difference(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var diff, norm float64
	for i := range b {
		d := float64(a[i]) - float64(b[i])
		diff += d * d
		norm += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(diff / norm)
}

func writeFloats(path string, values []float32) error {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return os.WriteFile(path, data, 0o600)
}

func readFloats(path string) ([]float32, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := make([]float32, len(data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values, nil
}
