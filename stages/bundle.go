package stages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/lower"
	"github.com/jempipe/jempipe/train"
)

// Names of the files in the folder models of a stage's directory.
const (
	weightsFile       = "weights.safetensors"
	bufferFile        = "buffer.safetensors"
	classifierFile    = "classifier.onnx"
	scoreFile         = "score.onnx"
	langevinFile      = "langevin.onnx"
	langevinClassFile = "langevin_class.onnx"
)

// bundle is a trained model with all that is needed to use it. It is kept in one safetensors file.
type bundle struct {
	Arch       model.Arch
	Params     model.Params
	Preprocess lower.Preprocess
	Classes    []string
	Lo, Hi     float64 // range of raw values; both 0 where unknown
	Objective  string
	Sampler    train.Sampler // of training: sampling from the model later goes by the same rule
	id         string        // hash of a model that others trained
}

// facts is the bundle without weights, as it stands in the metadata of safetensors and ONNX files.
func (b bundle) facts() map[string]string {
	return map[string]string{
		"architecture":  mustJSON(b.Arch),
		"preprocessing": mustJSON(b.Preprocess),
		"class_names":   mustJSON(b.Classes),
		"raw_range":     mustJSON([]float64{b.Lo, b.Hi}),
		"objective":     b.Objective,
		"sampler":       mustJSON(b.Sampler),
	}
}

// mustJSON encodes values of this package's own types, which cannot fail.
func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%q", err.Error())
	}
	return string(data)
}

func (b bundle) save(path string) error {
	return writeSafetensors(path, b.Params, b.facts())
}

// loadBundle reads the model of a train or export stage's directory.
func loadBundle(dir string) (bundle, error) {
	path := filepath.Join(dir, "models", weightsFile)
	bad := func(err error) (bundle, error) {
		return bundle{}, fault.New(fault.Data, path, "not a model that jempipe wrote").Because(err).Do("remove the stage's folder and run again")
	}
	params, meta, err := readSafetensors(path)
	if err != nil {
		return bundle{}, err
	}
	b := bundle{Params: params, Objective: meta["objective"]}
	var rng []float64
	for _, m := range []struct {
		key  string
		into any
	}{{"architecture", &b.Arch}, {"preprocessing", &b.Preprocess}, {"class_names", &b.Classes}, {"raw_range", &rng}, {"sampler", &b.Sampler}} {
		if err := json.Unmarshal([]byte(meta[m.key]), m.into); err != nil {
			return bad(fmt.Errorf("metadata %s: %w", m.key, err))
		}
	}
	if len(rng) != 2 || len(b.Sampler.Range) != 2 {
		return bad(fmt.Errorf("metadata raw_range and sampler: want ranges of two numbers"))
	}
	b.Lo, b.Hi = rng[0], rng[1]
	if err := params.Check(b.Arch); err != nil {
		return bad(err)
	}
	return b, nil
}

// hash identifies architecture, weights and preprocessing.
func (b bundle) hash() string {
	if b.id != "" {
		return b.id
	}
	h := sha256.New()
	if err := model.WriteSafetensors(h, b.Params, b.facts()); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// rawRange is the range of raw values: what the data set states, else the raw image of [-1,1] in model space.
func (b bundle) rawRange() (lo, hi float64) {
	if b.Lo < b.Hi {
		return b.Lo, b.Hi
	}
	p := b.Preprocess
	lo, hi = (p.Mean[0]-p.Std[0])/p.Scale, (p.Mean[0]+p.Std[0])/p.Scale
	return min(lo, hi), max(lo, hi)
}
