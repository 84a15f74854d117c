package stages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/intake"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/onnx/selftest"
	"github.com/jempipe/jempipe/train"
)

// foreign is a classifier that others trained, with what of its data set matters.
type foreign struct {
	*intake.Classifier
	names    []string
	lo, hi   float64 // range of raw values; equal where unknown
	raw      bool    // the score is with respect to raw samples
	probe    []float32
	path     string
	supplied string // gradient graph that others made; "" for our own
	hash     string // of the file, where it was loaded
}

// notes are what a person may want to know of the model.
func (m *foreign) notes() []string {
	notes := []string{fmt.Sprintf("%s: %d classes; logits are %s", filepath.Base(m.path), m.Classes, m.From)}
	if m.Features > 0 {
		notes = append(notes, fmt.Sprintf("%d features", m.Features))
	}
	if m.Freed > 0 {
		notes = append(notes, fmt.Sprintf("batches of any size, where the file has %d", m.Freed))
	}
	if m.EnergyReason != "" {
		notes = append(notes, "no energy: "+m.EnergyReason)
	}
	return append(notes, m.Notes...)
}

// facts is what later stages need to know, as it stands in the metadata of the ONNX files.
func (m *foreign) facts() map[string]string {
	facts := map[string]string{
		"preprocessing": mustJSON(m.Preprocess),
		"class_names":   mustJSON(m.names),
		"raw_range":     mustJSON([]float64{m.lo, m.hi}),
		"objective":     foreignObjective,
		foreignKey: mustJSON(foreignFacts{Input: m.Input, Space: m.Space, Batch: m.Batch, Features: m.Features, From: m.From,
			EnergyReason: m.EnergyReason, Raw: m.raw, Notes: m.Notes}),
	}
	return facts
}

const (
	// headFile holds the weights of the last dense layer of a model of others.
	headFile = "head.safetensors"
	// suppliedFile is the model with a gradient graph that others made, before it is tested.
	suppliedFile = "supplied.onnx"
	// foreignKey is the metadata entry with what is particular to models of others.
	foreignKey = "model"
	// foreignObjective stands in place of a training objective.
	foreignObjective = "external"
)

// foreignFacts is the JSON behind foreignKey.
type foreignFacts struct {
	Input        []int    `json:"input"` // shape of a sample in model space
	Space        string   `json:"space"` // value in model space
	Batch        int      `json:"batch"` // 0: free
	Features     int      `json:"features"`
	From         string   `json:"logits_from"`
	EnergyReason string   `json:"energy_reason"`
	Raw          bool     `json:"raw_gradient"`
	Notes        []string `json:"notes,omitempty"`
}

// loadForeign reads the model of a model stage, or of an export stage behind one.
func loadForeign(dir string) (*foreign, error) {
	path := filepath.Join(dir, "models", classifierFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Data, path, "cannot be read").Because(err)
	}
	m, err := ir.Load(data)
	if err != nil {
		return nil, fault.New(fault.Data, path, "not a model that jempipe wrote").Because(err)
	}
	meta := ir.Metadata(m)
	if meta["objective"] != foreignObjective {
		return nil, fault.New(fault.Data, path, "not a model that a model stage took in").Do("remove the stage's folder and run again")
	}
	sum := sha256.Sum256(data)
	f := &foreign{Classifier: &intake.Classifier{Model: m}, path: path, hash: hex.EncodeToString(sum[:])}
	var facts foreignFacts
	var ends []float64
	for key, into := range map[string]any{foreignKey: &facts, "preprocessing": &f.Preprocess, "class_names": &f.names, "raw_range": &ends} {
		if err := json.Unmarshal([]byte(meta[key]), into); err != nil {
			return nil, fault.New(fault.Data, path, "metadata %s", key).Because(err)
		}
	}
	if len(ends) != 2 || len(f.names) == 0 {
		return nil, fault.New(fault.Data, path, "metadata raw_range or class_names is incomplete").Do("remove the stage's folder and run again")
	}
	f.lo, f.hi, f.raw = ends[0], ends[1], facts.Raw
	f.Input, f.Space, f.Batch, f.Features, f.From = facts.Input, facts.Space, facts.Batch, facts.Features, facts.From
	f.EnergyReason, f.Notes, f.Classes = facts.EnergyReason, facts.Notes, len(f.names)
	return f, nil
}

// walkable says whether several updates of chains can be put into one graph: batches are of any size, and the operator
// set has the operators that it takes.
func (m *foreign) walkable() bool { return m.Batch == 0 && ir.Opset(m.Model) >= 11 }

// reason makes the text of an error short enough for a table or a metadata entry.
func reason(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 500 {
		text = text[:500]
	}
	return text
}

// score is a copy of the model with the output score: the gradient of its log density.
func (m *foreign) score() (*onnxpb.ModelProto, error) {
	c := *m.Classifier
	c.Model = ir.Clone(m.Model)
	if err := c.AddScore(lower.Energy, m.raw); err != nil {
		return nil, err
	}
	return c.Model, nil
}

// selfTest tests the output score of a model on raw samples.
func (m *foreign) selfTest(ctx context.Context, rt *ort.Runtime, score *onnxpb.ModelProto, raw []float32, seed uint64) (selftest.Report, error) {
	data, err := ir.Marshal(score)
	if err != nil {
		return selftest.Report{}, err
	}
	s, err := rt.Session(data, ort.SessionOptions{Threads: 1, Name: scoreFile})
	if err != nil {
		return selftest.Report{}, err
	}
	defer s.Close()
	g, err := m.TestGraph(s, lower.Energy, m.raw)
	if err != nil {
		return selftest.Report{}, err
	}
	g.Name = filepath.Base(m.path)
	if m.supplied != "" {
		g.Name = m.supplied
	}
	return g.Run(ctx, raw, seed)
}

// headParams are the weights of a dense layer as named tensors.
func headParams(h *intake.Head) model.Params {
	return model.Params{{Name: "weight", Shape: []int{h.Outputs, h.In}, Data: h.Weight}, {Name: "bias", Shape: []int{h.Outputs}, Data: h.Bias}}
}

// bundle describes the model to what samples from it: the space and the defaults of a train stage.
func (m *foreign) bundle() (bundle, error) {
	b := bundle{Arch: model.Arch{Name: "external", Input: m.Input, Classes: m.Classes}, Preprocess: m.Preprocess, Classes: m.names,
		Lo: m.lo, Hi: m.hi, Objective: foreignObjective, Sampler: train.Default().Sampler, id: m.hash}
	_, scale, shift, err := m.Preprocess.Map(m.Input)
	if err != nil {
		return b, err
	}
	lo, hi := b.rawRange()
	b.Sampler.Range = []float64{math.Inf(1), math.Inf(-1)}
	for i, a := range scale {
		from, to := lo*a+shift[i], hi*a+shift[i]
		b.Sampler.Range[0] = min(b.Sampler.Range[0], from, to)
		b.Sampler.Range[1] = max(b.Sampler.Range[1], from, to)
	}
	return b, nil
}
