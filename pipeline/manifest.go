package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manifestName is the file in a stage's directory that says what is in it and what it was made from.
const manifestName = "_stage.json"

// Inputs is everything that decides a stage's results. Its JSON is hashed into the fingerprint.
type Inputs struct {
	Stage      string               `json:"stage"` // random streams are keyed by it
	Kind       string               `json:"kind"`
	Version    int                  `json:"version"`
	Config     json.RawMessage      `json:"config"`
	Data       map[string]DataInput `json:"data"`
	Files      map[string]string    `json:"files"`  // FileRef -> SHA-256
	Stages     map[string]string    `json:"stages"` // StageRef -> output hash
	Seed       uint64               `json:"seed"`
	Runtime    RuntimeInput         `json:"runtime"`
	Result     int                  `json:"result_version"`
	ConfigText string               `json:"config_text,omitempty"` // SHA-256, for kinds that read the text
}

// DataInput is one data set: what its entry says and what its files hold, in the order read.
type DataInput struct {
	Identity string   `json:"identity"`
	Files    []string `json:"files"` // SHA-256 each
}

// RuntimeInput is the part of ONNX Runtime's set-up that can change a bit of a result.
type RuntimeInput struct {
	Version  string            `json:"version"`
	Provider string            `json:"provider"`
	Threads  int               `json:"threads"`
	Options  map[string]string `json:"options"`
}

// Fingerprint is the SHA-256 of the inputs, hex.
func (in Inputs) Fingerprint() string {
	text, err := json.Marshal(in)
	if err != nil {
		return "" // matches no recorded fingerprint
	}
	return hashOf(text)
}

// Output is one file of a stage.
type Output struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Rows   *int64 `json:"rows,omitempty"`
}

// Manifest is the content of a stage's _stage.json. It holds no times: equal results have equal bytes.
type Manifest struct {
	Schema      int                        `json:"schema"`
	Stage       string                     `json:"stage"`
	Kind        string                     `json:"kind"`
	Fingerprint string                     `json:"fingerprint"`
	OutputHash  string                     `json:"output_hash"`
	Outputs     map[string]Output          `json:"outputs"` // path within the stage's directory, with slashes
	Details     map[string]json.RawMessage `json:"details"` // what the stage reported with RunContext.Detail
	Inputs      Inputs                     `json:"inputs"`
}

const manifestSchema = 1

// outputHash stands for all files of a stage: SHA-256 over their paths and hashes in order of the paths.
func outputHash(files map[string]Output) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "%s %q\n", files[path].SHA256, path)
	}
	return hashOf([]byte(b.String()))
}

// Rows is the number of rows of all outputs that have rows.
func (m *Manifest) Rows() int64 {
	var n int64
	for _, o := range m.Outputs {
		if o.Rows != nil {
			n += *o.Rows
		}
	}
	return n
}

// readManifest reads a stage's manifest. An error says why it cannot be used; os.ErrNotExist where there is none.
func readManifest(dir string) (*Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("its %s cannot be read: %w", manifestName, err)
	}
	if m.Schema != manifestSchema {
		return nil, fmt.Errorf("its %s has schema %d, this program writes %d", manifestName, m.Schema, manifestSchema)
	}
	for path := range m.Outputs {
		if !filepath.IsLocal(filepath.FromSlash(path)) {
			return nil, fmt.Errorf("its %s names a file outside: %q", manifestName, path)
		}
	}
	return m, nil
}

func (m *Manifest) write(path string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
