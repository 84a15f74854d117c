package outputs

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/jempipe/jempipe/internal/fault"
)

// Directions of a detector column.
const (
	LargerIsOOD  = "larger_is_ood"
	SmallerIsOOD = "smaller_is_ood"
)

// Meta is what every table says about its origin in its key-value metadata. Fields that are empty are left out, so
// that equal runs give equal bytes; there are no times and no host names.
type Meta struct {
	ToolVersion string            // version of jempipe
	ConfigHash  string            // hash of the resolved configuration
	ModelHash   string            // hash of the model file
	InputHashes map[string]string // hash by input name or file
	Provider    string            // execution provider that computed the scores, such as cpu
	Seed        *uint64           // seed of the run
	ClassNames  []string          // in index order
	Directions  map[string]string // LargerIsOOD or SmallerIsOOD by column; nil: every ood_ column, larger is OOD
	SampleShape []int             // shape of the list column x, row-major
	Extra       map[string]string // further keys; must not repeat the keys of the fields above
}

// Map is the metadata as keys and values: schema_version, tool_version, config_hash, model_hash, input_hashes (JSON
// object), provider, seed, class_names (JSON list), detector_directions (JSON object), sample_shape (JSON list).
func (m Meta) Map() map[string]string {
	kv := map[string]string{"schema_version": SchemaVersion}
	for key, value := range m.Extra {
		kv[key] = value
	}
	put := func(key, value string) {
		if value != "" {
			kv[key] = value
		}
	}
	put("tool_version", m.ToolVersion)
	put("config_hash", m.ConfigHash)
	put("model_hash", m.ModelHash)
	put("provider", m.Provider)
	if m.Seed != nil {
		put("seed", strconv.FormatUint(*m.Seed, 10))
	}
	if len(m.InputHashes) > 0 {
		put("input_hashes", compact(m.InputHashes))
	}
	if len(m.ClassNames) > 0 {
		put("class_names", compact(m.ClassNames))
	}
	if len(m.SampleShape) > 0 {
		put("sample_shape", compact(m.SampleShape))
	}
	directions := m.Directions
	if directions == nil {
		directions = make(map[string]string)
		for _, name := range Detectors() {
			directions["ood_"+name] = LargerIsOOD
		}
	}
	put("detector_directions", compact(directions))
	return kv
}

// compact is JSON on one line with sorted keys and without HTML escapes. Maps of strings, lists of strings and lists
// of numbers always encode.
func compact(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("outputs: metadata that JSON cannot hold: %v", err))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ReadMeta reads a table's metadata. Keys that are not fields of Meta are in Extra; a file written by something else
// has no schema_version and is refused.
func ReadMeta(path string) (m Meta, err error) {
	kv, err := keyValues(path)
	if err != nil {
		return Meta{}, err
	}
	if kv["schema_version"] == "" {
		return Meta{}, fault.New(fault.Data, path, "no schema_version in the file's metadata, wanted a table written by jempipe")
	}
	m.Extra = make(map[string]string)
	for key, value := range kv {
		if err := m.set(key, value); err != nil {
			return Meta{}, fault.New(fault.Data, path, "metadata %s is %q", key, value).Because(err)
		}
	}
	return m, nil
}

func (m *Meta) set(key, value string) error {
	switch key {
	case "schema_version", arrowSchemaKey:
	case "tool_version":
		m.ToolVersion = value
	case "config_hash":
		m.ConfigHash = value
	case "model_hash":
		m.ModelHash = value
	case "provider":
		m.Provider = value
	case "seed":
		seed, err := strconv.ParseUint(value, 10, 64)
		m.Seed = &seed
		return err
	case "input_hashes":
		return json.Unmarshal([]byte(value), &m.InputHashes)
	case "class_names":
		return json.Unmarshal([]byte(value), &m.ClassNames)
	case "sample_shape":
		return json.Unmarshal([]byte(value), &m.SampleShape)
	case "detector_directions":
		return json.Unmarshal([]byte(value), &m.Directions)
	default:
		m.Extra[key] = value
	}
	return nil
}

// keyValues is the raw key-value metadata of a Parquet file.
func keyValues(path string) (kv map[string]string, err error) {
	defer recovered(path, &err)
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	file, err := open(f, path)
	if err != nil {
		return nil, err
	}
	kv = make(map[string]string)
	for _, pair := range file.Metadata().KeyValueMetadata {
		kv[pair.Key] = pair.Value
	}
	return kv, nil
}

// open reads a Parquet file's footer.
func open(f *os.File, path string) (*parquet.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(path, err)
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fault.New(fault.Data, path, "not a complete Parquet file").Because(err).
			Do("write it again: a table is complete only once its stage is committed")
	}
	return file, nil
}

func unreadable(path string, err error) error {
	return fault.New(fault.Data, path, "cannot be read").Because(err)
}

// recovered turns a panic of the Parquet library on damaged bytes into an error.
func recovered(path string, err *error) {
	if p := recover(); p != nil {
		*err = fault.New(fault.Data, path, "damaged Parquet file: %v", p).Do("write the file again")
	}
}
