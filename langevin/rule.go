package langevin

import (
	"fmt"
	"math"
	"slices"
)

// keys are the keys of the update rule. I, F, B and S are int, float64, bool and string, or pointers to them where a key
// may be absent.
type keys[I, F, B, S any] struct {
	Steps        I         `yaml:"steps" json:"steps" min:"1" doc:"Updates of a chain. The paper trains with 20."`
	StepSize     F         `yaml:"step_size" json:"step_size" min:"0" doc:"Factor in front of the gradient (alpha/2). The paper: 1."`
	NoiseStd     F         `yaml:"noise_std" json:"noise_std" min:"0" doc:"Standard deviation of the noise of an update, where temperature is 0. The paper: 0.01."`
	Temperature  F         `yaml:"temperature" json:"temperature" min:"0" doc:"Above 0: the noise is that of Langevin dynamics at this temperature, sqrt(2 step_size temperature), in place of noise_std; chains then draw from p(x)^(1/temperature). 0, as where nothing is said: noise_std holds. noise_std 0.01 at step_size 1 is a temperature of 5e-5."`
	GradClip     F         `yaml:"grad_clip" json:"grad_clip" min:"0" doc:"Bound on each element of the input gradient; 0: none. The paper: 0. Too large, chains jump over the model's modes; too small, they do not reach them."`
	Clamp        B         `yaml:"clamp" json:"clamp" doc:"Keep chains inside range. The paper: false."`
	Range        []float64 `yaml:"range" json:"range" doc:"Range in model space, [low, high], of clamping and of chains that start from uniform noise."`
	Schedule     S         `yaml:"schedule" json:"schedule" enum:"constant|polynomial|geometric" doc:"How the step size changes with the update k = 0, 1, ... of a run of a chain. polynomial: times (1 + k / decay_offset)^-decay_power (Welling and Teh 2011); geometric: in equal ratios down to decay_to at the last update. The noise goes with the square root of it."`
	DecayOffset  F         `yaml:"decay_offset" json:"decay_offset" above:"0" doc:"Offset b of the polynomial schedule: updates until the decay sets in."`
	DecayPower   F         `yaml:"decay_power" json:"decay_power" min:"0" doc:"Exponent of the polynomial schedule; Welling and Teh want it in (0.5, 1]."`
	DecayTo      F         `yaml:"decay_to" json:"decay_to" above:"0" max:"1" doc:"Factor that the geometric schedule ends with."`
	Correct      S         `yaml:"correct" json:"correct" enum:"none|mala" doc:"mala: each update is a proposal that is accepted or refused so that chains draw from the density itself (the Metropolis-adjusted Langevin algorithm, Roberts and Tweedie 1996). It needs temperature above 0; with clamp, proposals that leave the range are refused."`
	StepsPerCall I         `yaml:"steps_per_call" json:"steps_per_call" min:"0" doc:"Updates that one call of the model makes, with the chains on the device in between. 0, as where nothing is said: one on the CPU, up to 20 on accelerators."`
}

// Rule says how chains move. The update of x is
//
//	x <- x + step d(log p)/dx + std N(0, I)
//
// with the gradient clipped and x clamped where that is wanted. Zero values of StepSize, NoiseStd and GradClip switch
// these parts off; an empty Schedule is constant and an empty Correct none.
type Rule keys[int, float64, bool, string]

// Changes are the keys of a rule that differ from another one; nil: as there.
type Changes keys[*int, *float64, *bool, *string]

// Values of Rule.Schedule and Rule.Correct.
const (
	Constant   = "constant"
	Polynomial = "polynomial"
	Geometric  = "geometric"
	None       = "none"
	MALA       = "mala"
)

// Default is the rule of training where nothing is said.
func Default() Rule {
	return Rule{Steps: 20, StepSize: 1, NoiseStd: 0.01, GradClip: 0.1, Clamp: true, Range: []float64{-1, 1},
		Schedule: Constant, DecayOffset: 1, DecayPower: 0.55, DecayTo: 0.1, Correct: None}
}

// On gives a rule with the changes made.
func (c Changes) On(r Rule) Rule {
	set(&r.Steps, c.Steps)
	set(&r.StepSize, c.StepSize)
	set(&r.NoiseStd, c.NoiseStd)
	set(&r.Temperature, c.Temperature)
	set(&r.GradClip, c.GradClip)
	set(&r.Clamp, c.Clamp)
	if c.Range != nil {
		r.Range = c.Range
	}
	set(&r.Schedule, c.Schedule)
	set(&r.DecayOffset, c.DecayOffset)
	set(&r.DecayPower, c.DecayPower)
	set(&r.DecayTo, c.DecayTo)
	set(&r.Correct, c.Correct)
	set(&r.StepsPerCall, c.StepsPerCall)
	return r
}

func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

// At gives the step size and the standard deviation of the noise of update k, counted from 0. With the factor f of the
// schedule, which is 1 at k = 0, these are f StepSize and sqrt(f) NoiseStd, or sqrt(2 f StepSize Temperature) where the
// temperature is above 0: the noise of Langevin dynamics goes with the square root of the step, so the ratio of drift
// and noise, the temperature, stays.
func (r Rule) At(k int) (step, std float64) {
	f := r.factor(k)
	step, std = r.StepSize*f, r.NoiseStd*math.Sqrt(f)
	if r.Temperature > 0 {
		std = math.Sqrt(2 * step * r.Temperature)
	}
	return step, std
}

func (r Rule) factor(k int) float64 {
	switch {
	case r.Schedule == Polynomial:
		return math.Pow(1+float64(k)/r.DecayOffset, -r.DecayPower)
	case r.Schedule == Geometric && r.Steps > 1:
		return math.Pow(r.DecayTo, float64(k)/float64(r.Steps-1))
	}
	return 1
}

// Problem is a value that does not go together with the rest of a rule.
type Problem struct{ Key, Message string }

// Lint finds what is wrong with a rule, under the names of the keys in the YAML.
func (r Rule) Lint() []Problem {
	var ps []Problem
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			ps = append(ps, Problem{key, fmt.Sprintf(format, args...)})
		}
	}
	check(r.Steps >= 1, "steps", "%d; at least 1 is wanted", r.Steps)
	check(r.StepsPerCall >= 0, "steps_per_call", "%d; 0 or more is wanted", r.StepsPerCall)
	for _, v := range []struct {
		key   string
		value float64
	}{{"step_size", r.StepSize}, {"noise_std", r.NoiseStd}, {"temperature", r.Temperature}, {"grad_clip", r.GradClip}} {
		check(v.value >= 0 && !math.IsInf(v.value, 1), v.key, "%g; a number, 0 or more, is wanted", v.value)
	}
	if r.Clamp || len(r.Range) > 0 {
		check(len(r.Range) == 2 && r.Range[0] < r.Range[1], "range", "want two numbers, the lower one first")
	}
	check(r.Schedule == "" || slices.Contains([]string{Constant, Polynomial, Geometric}, r.Schedule), "schedule",
		"%q; constant, polynomial or geometric is wanted", r.Schedule)
	if r.Schedule == Polynomial {
		check(r.DecayOffset > 0, "decay_offset", "%g; a number above 0 is wanted by schedule: polynomial", r.DecayOffset)
		check(r.DecayPower >= 0, "decay_power", "%g; a number, 0 or more, is wanted by schedule: polynomial", r.DecayPower)
	}
	if r.Schedule == Geometric {
		check(r.DecayTo > 0 && r.DecayTo <= 1, "decay_to", "%g; a number above 0, at most 1, is wanted by schedule: geometric", r.DecayTo)
	}
	check(r.Correct == "" || r.Correct == None || r.Correct == MALA, "correct", "%q; none or mala is wanted", r.Correct)
	if r.Correct == MALA {
		check(r.Temperature > 0, "temperature", "correct: mala needs a temperature above 0, so that the noise fits the step size; 1 draws from the density itself")
		check(r.StepSize > 0, "step_size", "correct: mala needs a step size above 0")
		check(r.StepsPerCall <= 1, "steps_per_call", "correct: mala looks at each update; leave steps_per_call out")
	}
	return ps
}

// check is the first problem as an error.
func (r Rule) check() error {
	if ps := r.Lint(); len(ps) > 0 {
		return fmt.Errorf("langevin: %s: %s", ps[0].Key, ps[0].Message)
	}
	return nil
}

// bounds are the ends of the range; infinite where there is none.
func (r Rule) bounds() (lo, hi float32) {
	if len(r.Range) != 2 {
		return float32(math.Inf(-1)), float32(math.Inf(1))
	}
	return float32(r.Range[0]), float32(r.Range[1])
}
