package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/model"
)

// A checkpoint is a directory of these files. It holds all that decides how a run goes on; random numbers need no
// place in it, since their streams are keyed by seed, attempt and step.
const (
	checkpointWeights = "weights.safetensors" // the network's weights, to start from elsewhere as well
	checkpointState   = "state.safetensors"   // moving average, moments, replay buffer, best weights
	checkpointHistory = "history.gob"         // the records so far
	checkpointFacts   = "checkpoint.json"     // counters, and the SHA-256 of the other files
)

// facts are the numbers of a run between two steps.
type facts struct {
	Step      int     `json:"step"`    // steps done
	Attempt   int     `json:"attempt"` // rollbacks so far
	LRScale   float64 `json:"lr_scale"`
	StepScale float64 `json:"sampler_step_scale"`
	Solver    int     `json:"solver_steps"`
	Best      *best   `json:"best,omitempty"`
	// Between says that the checkpoint stands at a time and not at a step of Checkpoint.Every: a killed run continues
	// from it, but the guard, whose answers must not depend on times, does not go back to it.
	Between bool `json:"between,omitempty"`
	// Healthy says that the gap was small at the time (Guard.GapHealthy). A collapse is told long after it began, and only
	// such a checkpoint is surely from before it.
	Healthy bool `json:"healthy,omitempty"`
	// Returned says that the guard has gone back to it before.
	Returned bool    `json:"returned,omitempty"`
	Events   []Event `json:"events,omitempty"`

	Files map[string]string `json:"files"`
}

// best is the evaluation that Config.Select looks for.
type best struct {
	Step  int     `json:"step"`
	Value float64 `json:"value"`
}

// saved is a checkpoint in memory.
type saved struct {
	facts
	weights, state model.Params
	records        []Record
}

// checkpoints is the directory that they stand in.
type checkpoints struct {
	dir  string
	keep int
}

// listed is a checkpoint on disk.
type listed struct {
	name string
	facts
}

func (l listed) newer(o listed) int {
	if l.Attempt != o.Attempt {
		return l.Attempt - o.Attempt
	}
	return l.Step - o.Step
}

// save writes a checkpoint, complete or not at all, and removes those that are no longer wanted.
func (c checkpoints) save(s saved) error {
	err := c.write(s)
	if err == nil {
		err = c.drop(s.Step, s.Attempt)
	}
	if err == nil {
		err = c.prune()
	}
	if err != nil {
		return fmt.Errorf("checkpoint of step %d in %s: %w", s.Step, c.dir, err)
	}
	return nil
}

func (c checkpoints) write(s saved) error {
	name := fmt.Sprintf("step-%08d-attempt-%d", s.Step, s.Attempt)
	temp := filepath.Join(c.dir, "."+name)
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return err
	}
	s.Files = map[string]string{}
	for file, encode := range map[string]func(*bytes.Buffer) error{
		checkpointWeights: func(b *bytes.Buffer) error { return model.WriteSafetensors(b, s.weights, nil) },
		checkpointState:   func(b *bytes.Buffer) error { return model.WriteSafetensors(b, s.state, nil) },
		checkpointHistory: func(b *bytes.Buffer) error { return gob.NewEncoder(b).Encode(s.records) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			return err
		}
		sum := sha256.Sum256(b.Bytes())
		s.Files[file] = hex.EncodeToString(sum[:])
		if err := writeSynced(filepath.Join(temp, file), b.Bytes()); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(s.facts, "", "  ")
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(temp, checkpointFacts), append(text, '\n')); err != nil {
		return err
	}
	final := filepath.Join(c.dir, name)
	if err := os.RemoveAll(final); err != nil {
		return err
	}
	if err := os.Rename(temp, final); err != nil {
		return err
	}
	return syncDir(c.dir)
}

func writeSynced(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// list gives the checkpoints, oldest first. What is no checkpoint, such as one that a killed run left half written, is
// passed over.
func (c checkpoints) list() ([]listed, error) {
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []listed
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(c.dir, e.Name(), checkpointFacts))
		l := listed{name: e.Name()}
		if err == nil && json.Unmarshal(text, &l.facts) == nil {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, listed.newer)
	return out, nil
}

// prune keeps the newest checkpoints of Checkpoint.Every and the newest two of them that are healthy, which may be older;
// of those in between it keeps the newest while it is the last.
func (c checkpoints) prune() error {
	const healthyOnes = 2
	all, err := c.list()
	if err != nil {
		return err
	}
	steady, healthy := 0, 0
	for i, l := range slices.Backward(all) {
		wanted := i == len(all)-1
		if !l.Between {
			steady++
			wanted = steady <= c.keep
			if l.Healthy {
				healthy++
				wanted = wanted || healthy <= healthyOnes
			}
		}
		if !wanted {
			if err := os.RemoveAll(filepath.Join(c.dir, l.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// load reads a checkpoint and compares its files with their hashes.
func (c checkpoints) load(l listed) (s saved, err error) {
	s.facts = l.facts
	read := func(file string) []byte {
		data, e := os.ReadFile(filepath.Join(c.dir, l.name, file))
		sum := sha256.Sum256(data)
		if e == nil && hex.EncodeToString(sum[:]) != l.Files[file] {
			e = fmt.Errorf("its SHA-256 is not the one that %s states", checkpointFacts)
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", file, e))
		}
		return data
	}
	weights, state, history := read(checkpointWeights), read(checkpointState), read(checkpointHistory)
	if err == nil {
		s.weights, _, err = model.ReadSafetensors(weights)
	}
	if err == nil {
		s.state, _, err = model.ReadSafetensors(state)
	}
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(history)).Decode(&s.records)
	}
	if err != nil {
		return s, fmt.Errorf("checkpoint %s: %w", filepath.Join(c.dir, l.name), err)
	}
	return s, nil
}

// newest loads the checkpoint that a run continues from. Damaged ones are passed over, and told.
func (c checkpoints) newest(damaged func(error)) (*saved, error) {
	all, err := c.list()
	if err != nil {
		return nil, err
	}
	for _, l := range slices.Backward(all) {
		s, err := c.load(l)
		if err == nil {
			return &s, nil
		}
		damaged(err)
	}
	return nil, nil
}

// before loads the checkpoint to go back to from trouble that began at a step, counted from 1: the newest healthy one from
// before it that was not gone back to yet, since from there the same might happen again; else the oldest healthy one; else
// the oldest. It is nil where there is none.
func (c checkpoints) before(step int) (*saved, error) {
	all, err := c.list()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(l listed) bool { return l.Between })
	if len(all) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(all, func(a, b listed) int { return a.Step - b.Step })
	to := all[0]
	if i := slices.IndexFunc(all, func(l listed) bool { return l.Healthy }); i >= 0 {
		to = all[i]
	}
	for _, l := range all {
		if l.Healthy && l.Step < step && !l.Returned {
			to = l
		}
	}
	s, err := c.load(to)
	return &s, err
}

// drop removes the checkpoints of earlier attempts at a step or behind it.
func (c checkpoints) drop(step, attempt int) error {
	all, err := c.list()
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.Step >= step && l.Attempt < attempt {
			if err := os.RemoveAll(filepath.Join(c.dir, l.name)); err != nil {
				return err
			}
		}
	}
	return nil
}
