package pipeline

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/jempipe/jempipe/outputs"
)

// States of a run and of a stage in run.json.
const (
	StatusRunning   = "running"
	StatusDone      = "done"
	StatusFailed    = "failed"
	StatusCancelled = "cancelled"
	StatusPartial   = "partial" // what Options.Only named is done, other stages are not

	StatePending = "pending" // not reached
	StateRan     = "ran"
	StateReused  = "reused"
	StateLeft    = "left out" // by Options.Only
)

// RunRecord is run.json: the only file of a run that holds times and hosts.
type RunRecord struct {
	Schema      int            `json:"schema"`
	Name        string         `json:"name"`
	Status      string         `json:"status"`
	Error       string         `json:"error,omitempty"`
	Started     time.Time      `json:"started"`
	Finished    *time.Time     `json:"finished"`
	WallSeconds float64        `json:"wall_seconds"`
	CPUSeconds  float64        `json:"cpu_seconds"`
	PeakRSS     int64          `json:"peak_rss_bytes"`
	Tool        ToolRecord     `json:"tool"`
	Host        HostRecord     `json:"host"`
	Runtime     RuntimeRecord  `json:"runtime"`
	Seed        uint64         `json:"seed"`
	Config      ConfigRecord   `json:"config"`
	Stages      []*StageRecord `json:"stages"` // in the order in which they run
}

// ToolRecord says which program ran.
type ToolRecord struct {
	Version       string `json:"version"`
	ResultVersion int    `json:"result_version"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
}

// HostRecord says where it ran.
type HostRecord struct {
	Name  string `json:"name"`
	Cores int    `json:"cores"`
	PID   int    `json:"pid"`
}

// RuntimeRecord says which ONNX Runtime it used, and how.
type RuntimeRecord struct {
	Version  string            `json:"version"`
	Library  string            `json:"library"`
	Source   string            `json:"source"`
	Provider string            `json:"provider"`
	Threads  int               `json:"threads"`
	Options  map[string]string `json:"options,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
}

// ConfigRecord says which configuration it ran.
type ConfigRecord struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// StageRecord is one stage in run.json. Times of a reused stage are those of the run that made its result; they are
// null where that is not known.
type StageRecord struct {
	Name        string                     `json:"name"`
	Kind        string                     `json:"kind"`
	State       string                     `json:"state"`
	Why         []string                   `json:"why,omitempty"`
	Error       string                     `json:"error,omitempty"`
	Fingerprint string                     `json:"fingerprint,omitempty"`
	Inputs      map[string]string          `json:"inputs,omitempty"` // data.NAME, stages.NAME, files.PATH -> hash
	OutputHash  string                     `json:"output_hash,omitempty"`
	Outputs     map[string]Output          `json:"outputs,omitempty"`
	Rows        *int64                     `json:"rows,omitempty"`
	Started     *time.Time                 `json:"started"`
	WallSeconds *float64                   `json:"wall_seconds"`
	CPUSeconds  *float64                   `json:"cpu_seconds"`
	PeakRSS     *int64                     `json:"peak_rss_bytes"`
	Details     map[string]json.RawMessage `json:"details,omitempty"`
	Measures    map[string]json.RawMessage `json:"measures,omitempty"`
}

const recordSchema = 1

func recordPath(runDir string) string { return filepath.Join(runDir, "run.json") }

// ReadRecord reads the run.json of a run directory.
func ReadRecord(runDir string) (*RunRecord, error) {
	text, err := os.ReadFile(recordPath(runDir))
	if err != nil {
		return nil, err
	}
	r := &RunRecord{}
	return r, json.Unmarshal(text, r)
}

func (r *RunRecord) write(runDir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return outputs.WriteFileAtomic(recordPath(runDir), append(text, '\n'))
}

// newRecord is the record of a run that has just begun.
func (e *engine) newRecord() *RunRecord {
	host, _ := os.Hostname()
	r := &RunRecord{
		Schema: recordSchema, Name: e.cfg.Name, Status: StatusRunning, Started: time.Now().UTC(),
		Tool: ToolRecord{e.opts.ToolVersion, ResultVersion, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH},
		Host: HostRecord{host, runtime.NumCPU(), os.Getpid()},
		Runtime: RuntimeRecord{
			e.info.Library.Version, e.info.Library.Path, e.info.Library.Source,
			e.info.Provider, e.info.Threads, e.cfg.Runtime.Options, e.info.Notes,
		},
		Seed:   e.cfg.Seed,
		Config: ConfigRecord{e.cfg.File, e.cfg.Hash},
	}
	for _, s := range e.cfg.Stages {
		r.Stages = append(r.Stages, &StageRecord{Name: s.Name, Kind: s.Kind.Name, State: StatePending})
	}
	return r
}

// fill takes over what a manifest says.
func (r *StageRecord) fill(m *Manifest) {
	r.Fingerprint, r.OutputHash, r.Outputs, r.Details = m.Fingerprint, m.OutputHash, m.Outputs, m.Details
	r.Inputs = m.Inputs.hashes()
	if rows := m.Rows(); rows > 0 {
		r.Rows = &rows
	}
}

// carry takes over the times and measures of an earlier run that made the same result.
func (r *StageRecord) carry(earlier *RunRecord) {
	if earlier == nil {
		return
	}
	i := slices.IndexFunc(earlier.Stages, func(o *StageRecord) bool {
		return o != nil && o.Name == r.Name && o.Fingerprint == r.Fingerprint && o.OutputHash == r.OutputHash
	})
	if i >= 0 {
		o := earlier.Stages[i]
		r.Started, r.WallSeconds, r.CPUSeconds, r.PeakRSS, r.Measures = o.Started, o.WallSeconds, o.CPUSeconds, o.PeakRSS, o.Measures
	}
}

// hashes gives one hash for each input. That of a data set covers its entry and its files.
func (in Inputs) hashes() map[string]string {
	out := map[string]string{}
	for name := range in.Data {
		out["data."+name] = in.Data[name].hash()
	}
	for name, h := range in.Stages {
		out["stages."+name] = h
	}
	for name, h := range in.Files {
		out["files."+name] = h
	}
	return out
}

func (d DataInput) hash() string {
	text, err := json.Marshal(d)
	if err != nil {
		return ""
	}
	return hashOf(text)
}

// clone copies a record, so that a stage can read it while the run goes on.
func (r *RunRecord) clone() RunRecord {
	out := *r
	out.Stages = nil
	for _, s := range r.Stages {
		c := *s
		c.Details, c.Measures, c.Outputs = maps.Clone(s.Details), maps.Clone(s.Measures), maps.Clone(s.Outputs)
		out.Stages = append(out.Stages, &c)
	}
	return out
}
