package langevin

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		name      string
		rule      Rule
		k         int
		step, std float64
	}{
		{"constant", Rule{Steps: 10, StepSize: 2, NoiseStd: 0.3, Schedule: Constant}, 7, 2, 0.3},
		{"not said", Rule{Steps: 10, StepSize: 2, NoiseStd: 0.3}, 7, 2, 0.3},
		{"polynomial, start", Rule{Steps: 10, StepSize: 2, NoiseStd: 0.3, Schedule: Polynomial, DecayOffset: 3, DecayPower: 0.55}, 0, 2, 0.3},
		// a (b+k)^-gamma with a = 2 b^gamma.
		{"polynomial", Rule{Steps: 10, StepSize: 2, NoiseStd: 0.3, Schedule: Polynomial, DecayOffset: 3, DecayPower: 0.55}, 5,
			2 * math.Exp(0.55*(math.Log(3)-math.Log(8))), 0.3 * math.Exp(0.275*(math.Log(3)-math.Log(8)))},
		{"geometric, start", Rule{Steps: 5, StepSize: 2, NoiseStd: 0.3, Schedule: Geometric, DecayTo: 0.01}, 0, 2, 0.3},
		{"geometric, middle", Rule{Steps: 5, StepSize: 2, NoiseStd: 0.3, Schedule: Geometric, DecayTo: 0.01}, 2, 0.2, 0.3 * math.Sqrt(0.1)},
		{"geometric, end", Rule{Steps: 5, StepSize: 2, NoiseStd: 0.3, Schedule: Geometric, DecayTo: 0.01}, 4, 0.02, 0.03},
		{"geometric, one step", Rule{Steps: 1, StepSize: 2, NoiseStd: 0.3, Schedule: Geometric, DecayTo: 0.01}, 0, 2, 0.3},
		{"temperature", Rule{Steps: 5, StepSize: 2, NoiseStd: 0.3, Temperature: 0.25}, 3, 2, 1},
		{"temperature and schedule", Rule{Steps: 5, StepSize: 2, Temperature: 0.25, Schedule: Geometric, DecayTo: 0.01}, 4, 0.02, 0.1},
	} {
		step, std := c.rule.At(c.k)
		if math.Abs(step-c.step) > 1e-12 || math.Abs(std-c.std) > 1e-12 {
			t.Errorf("%s: step %v and noise %v, want %v and %v", c.name, step, std, c.step, c.std)
		}
	}
}

// Every key can be changed, and a change reaches its own key and no other.
func TestChangesReachTheirKeys(t *testing.T) {
	if Changes.On(Changes{}, Default()).Steps != 20 || !reflect.DeepEqual(Changes{}.On(Default()), Default()) {
		t.Error("no changes change the rule")
	}
	for i := range reflect.TypeFor[Rule]().NumField() {
		var c Changes
		f := reflect.ValueOf(&c).Elem().Field(i)
		changed := reflect.ValueOf(Default()).Field(i)
		value := reflect.New(changed.Type()).Elem()
		switch value.Kind() {
		case reflect.Int:
			value.SetInt(77)
		case reflect.Float64:
			value.SetFloat(0.77)
		case reflect.String:
			value.SetString("other")
		case reflect.Bool:
			value.SetBool(!changed.Bool())
		case reflect.Slice:
			value.Set(reflect.ValueOf([]float64{7, 77}))
		}
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.New(value.Type()))
			f.Elem().Set(value)
		} else {
			f.Set(value)
		}
		want := Default()
		reflect.ValueOf(&want).Elem().Field(i).Set(value)
		if got := c.On(Default()); !reflect.DeepEqual(got, want) {
			t.Errorf("field %s: %+v, want %+v", reflect.TypeFor[Rule]().Field(i).Name, got, want)
		}
	}
}

// What models that were saved before have of a rule still means the same.
func TestRuleOfAnEarlierModel(t *testing.T) {
	var r Rule
	text := `{"steps":20,"step_size":1,"noise_std":0.01,"grad_clip":0.1,"clamp":true,"range":[-1,1],"buffer_size":10000}`
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if ps := r.Lint(); len(ps) > 0 {
		t.Errorf("problems %v", ps)
	}
	if step, std := r.At(19); step != 1 || std != 0.01 {
		t.Errorf("update 19 has step %v and noise %v, want 1 and 0.01", step, std)
	}
}

func TestRuleLint(t *testing.T) {
	if ps := Default().Lint(); len(ps) > 0 {
		t.Errorf("the defaults have problems: %v", ps)
	}
	for want, change := range map[string]func(r *Rule){
		"steps":          func(r *Rule) { r.Steps = 0 },
		"step_size":      func(r *Rule) { r.StepSize = math.NaN() },
		"noise_std":      func(r *Rule) { r.NoiseStd = -1 },
		"temperature":    func(r *Rule) { r.Temperature = math.Inf(1) },
		"grad_clip":      func(r *Rule) { r.GradClip = -0.1 },
		"range":          func(r *Rule) { r.Range = []float64{1, -1} },
		"schedule":       func(r *Rule) { r.Schedule = "cosine" },
		"decay_offset":   func(r *Rule) { r.Schedule, r.DecayOffset = Polynomial, 0 },
		"decay_power":    func(r *Rule) { r.Schedule, r.DecayPower = Polynomial, -1 },
		"decay_to":       func(r *Rule) { r.Schedule, r.DecayTo = Geometric, 2 },
		"correct":        func(r *Rule) { r.Correct = "hmc" },
		"steps_per_call": func(r *Rule) { r.StepsPerCall = -1 },
	} {
		r := Default()
		change(&r)
		ps := r.Lint()
		if len(ps) != 1 || ps[0].Key != want || ps[0].Message == "" {
			t.Errorf("problems %v, want one of %s", ps, want)
		}
	}
	r := Default()
	r.Correct, r.StepSize, r.StepsPerCall = MALA, 0, 5
	var keys []string
	for _, p := range r.Lint() {
		keys = append(keys, p.Key)
	}
	if got := strings.Join(keys, " "); got != "temperature step_size steps_per_call" {
		t.Errorf("mala without temperature and step, with several steps a call: problems of %s", got)
	}
}
