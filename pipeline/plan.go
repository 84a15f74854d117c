package pipeline

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// Action is what a run does with a stage.
type Action string

const (
	Reuse   Action = "reuse" // its recorded result holds
	Execute Action = "run"
	Leave   Action = "leave" // its result does not hold, but Options.Only leaves it out
)

// Step is a stage in a plan.
type Step struct {
	Name        string
	Kind        string
	Action      Action
	Why         []string // why it does not hold; empty for Reuse
	Fingerprint string   // empty where a stage that it needs runs first
}

// Plan says what a run would do, stage by stage in order.
//
// A stage that runs only because one that it needs runs is still reused if that one gives the same bytes as before.
type Plan struct {
	Name    string
	RunDir  string
	Runtime ort.Info
	Steps   []Step
	Orphans []string // stage directories of an earlier configuration, which this one does not have
}

// NewPlan decides what a run would do. It writes nothing, and makes no directory.
func NewPlan(ctx context.Context, cfg *Config, opts Options) (*Plan, error) {
	e, err := newEngine(cfg, opts)
	if err != nil {
		return nil, err
	}
	defer e.close()
	p, _, err := e.plan(ctx)
	return p, err
}

// plan decides for every stage; manifests of those that hold are in e.held after.
func (e *engine) plan(ctx context.Context) (*Plan, []decision, error) {
	p := &Plan{Name: e.cfg.Name, RunDir: e.runDir, Runtime: e.info}
	var all []decision
	for _, s := range e.cfg.Stages {
		d, err := e.decide(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		if d.step.Action == Reuse {
			e.held[s.Name] = d.have
		} else if len(e.opts.Only) > 0 && !slices.Contains(e.opts.Only, s.Name) {
			d.step.Action = Leave
		}
		p.Steps = append(p.Steps, d.step)
		all = append(all, d)
	}
	p.Orphans = e.orphans()
	return p, all, e.checkOnly(p)
}

func (e *engine) orphans() []string {
	var names []string
	entries, _ := os.ReadDir(e.runDir) // a directory that is not there has none
	for _, entry := range entries {
		if _, err := os.Stat(filepath.Join(e.runDir, entry.Name(), manifestName)); err == nil &&
			stageName.MatchString(entry.Name()) && e.cfg.Stage(entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}
	return names
}

// checkOnly refuses a selection of stages that needs results which do not hold.
func (e *engine) checkOnly(p *Plan) error {
	for _, name := range e.opts.Force {
		if len(e.opts.Only) > 0 && !slices.Contains(e.opts.Only, name) {
			return fault.New(fault.Usage, "", "stage %s is forced but left out", name).Do("select it too, or do not force it")
		}
	}
	for _, step := range p.Steps {
		if step.Action != Execute {
			continue
		}
		for _, need := range e.cfg.Stage(step.Name).Needs() {
			i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Name == need })
			if i >= 0 && p.Steps[i].Action == Leave {
				return fault.New(fault.Usage, "", "stage %s needs stage %s, which is not up to date (%s)",
					step.Name, need, strings.Join(p.Steps[i].Why, "; ")).Do("select %s too", need)
			}
		}
	}
	return nil
}

// UpToDate says that a run has nothing to do.
func (p *Plan) UpToDate() bool { return p.count(Execute) == 0 }

func (p *Plan) count(a Action) int {
	n := 0
	for _, s := range p.Steps {
		if s.Action == a {
			n++
		}
	}
	return n
}

// Format writes the plan for people: one line a stage, with the reason.
func (p *Plan) Format(w io.Writer) error {
	width := 0
	for _, s := range p.Steps {
		width = max(width, len(s.Name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s\n", p.Name, p.RunDir)
	for _, s := range p.Steps {
		kind := ""
		if s.Kind != s.Name {
			kind = " [" + s.Kind + "]"
		}
		line := fmt.Sprintf("  %-5s  %-*s%s", s.Action, width, s.Name, kind)
		if len(s.Why) > 0 {
			line += "  " + strings.Join(s.Why, "; ")
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if len(p.Orphans) > 0 {
		fmt.Fprintf(&b, "left from an earlier configuration: %s\n", strings.Join(p.Orphans, ", "))
	}
	if p.UpToDate() {
		b.WriteString("nothing to do\n")
	} else {
		fmt.Fprintf(&b, "%d to run, %d to reuse\n", p.count(Execute), p.count(Reuse))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
