package train

import (
	"context"
	"errors"
	"slices"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
)

// feed fills batches: real rows in a shuffled order with noise, and chains from the replay buffer.
type feed struct {
	cfg     Config
	data    Data
	layout  layout
	batch   Batch
	sampler *langevin.Sampler
	buffer  *langevin.Buffer

	orderX, orderY *order
	augment        keyed.Source
	noise          keyed.Source
	draws          keyed.Source
	classDraws     keyed.Source

	labels, classes, sampleClasses []int32
	slots                          []int
	normals                        []float32
}

func newFeed(cfg Config, data Data) *feed {
	l := cfg.layout()
	return &feed{cfg: cfg, data: data, layout: l,
		batch: Batch{X: make([]float32, l.rows*data.Dim), Alpha: make([]float32, l.rows), Beta: make([]float32, l.rows),
			Gamma: make([]float32, l.rows*data.Classes)},
		labels: make([]int32, l.labelled.n()), classes: make([]int32, l.joint.n()), slots: make([]int, cfg.BatchSize),
		normals: make([]float32, data.Dim)}
}

// seed sets the random streams.
func (f *feed) seed(seed uint64) {
	f.augment = keyed.New(seed, "train augmentation")
	f.noise = keyed.New(seed, "train data noise")
	f.draws = keyed.New(seed, "train buffer draws")
	f.classDraws = keyed.New(seed, "train chain classes")
	all := make([]int, f.data.Rows())
	for i := range all {
		all[i] = i
	}
	f.orderX = newOrder(all, keyed.New(seed, "train order p(x)"))
	labelled := labelledRows(f.data.Labels, f.data.Classes, f.cfg.PerClass)
	if f.layout.labelled == f.layout.data {
		labelled = all
	}
	f.orderY = newOrder(labelled, keyed.New(seed, "train order p(y|x)"))
}

// labelledRows lists the rows with a label, at most perClass of each class (0: all), in file order.
func labelledRows(labels []int32, classes, perClass int) []int {
	seen := make([]int, classes)
	var rows []int
	for i, y := range labels {
		if y >= 0 && (perClass == 0 || seen[y] < perClass) {
			seen[y]++
			rows = append(rows, i)
		}
	}
	return rows
}

// real copies the real rows of a batch, counted from the start of the run, and adds the data noise.
func (f *feed) real(number int) {
	put := func(k rowRange, o *order, purpose uint64, labels []int32) {
		for i := range k.n() {
			row := o.at(number*k.n() + i)
			if labels != nil {
				labels[i] = f.data.Labels[row]
			}
			x := f.row(k.from + i)
			copy(x, f.data.X[row*f.data.Dim:(row+1)*f.data.Dim])
			if f.cfg.Augment.Active() {
				f.cfg.Augment.Apply(x, f.data.Shape, f.augment.At(f.key(number, k.from+i), purpose).Rand)
			}
			f.addNoise(x, f.key(number, k.from+i), purpose)
		}
	}
	if f.layout.labelled == f.layout.data {
		put(f.layout.data, f.orderX, 0, f.labels)
		return
	}
	put(f.layout.data, f.orderX, 0, nil)
	put(f.layout.labelled, f.orderY, 1, f.labels)
}

// key is a number that no other row of the run has.
func (f *feed) key(number, row int) uint64 { return uint64(number)*uint64(f.layout.rows) + uint64(row) }

func (f *feed) row(i int) []float32 { return f.batch.X[i*f.data.Dim : (i+1)*f.data.Dim] }

func (f *feed) rows(k rowRange) []float32 { return f.batch.X[k.from*f.data.Dim : k.to*f.data.Dim] }

func (f *feed) addNoise(x []float32, index, purpose uint64) {
	if f.cfg.DataNoise == 0 {
		return
	}
	f.noise.Normals(f.normals, index, purpose)
	std := float32(f.cfg.DataNoise)
	for j, z := range f.normals {
		x[j] += float32(std * z)
	}
}

// sample advances the chains of a batch and puts them into it and back into the buffer. A model that gives no finite
// density is a trouble.
func (f *feed) sample(ctx context.Context, number int) (h health, err error) {
	if f.layout.samples.n() > 0 {
		if f.cfg.Sampler.Conditional {
			f.sampleClasses = f.drawClasses(f.sampleClasses, f.layout.samples.n(), number)
		}
		if h, err = f.chains(ctx, number, f.layout.samples, f.sampleClasses, 0); err != nil {
			return h, err
		}
	}
	if f.layout.joint.n() > 0 {
		// The joint chains take the labels of the labelled rows, as the authors do. A chain without a label runs in some
		// class but takes no part in the loss.
		copy(f.classes, f.labels)
		classes := slices.Clone(f.classes)
		for i, y := range classes {
			classes[i] = max(y, 0)
		}
		joint, err := f.chains(ctx, number, f.layout.joint, classes, 1)
		if err != nil {
			return h, err
		}
		if f.layout.samples.n() == 0 {
			h = joint
		}
	}
	h.dataMean = mean(f.rows(f.layout.positive()))
	return h, nil
}

func (f *feed) drawClasses(into []int32, n, number int) []int32 {
	if len(into) != n {
		into = make([]int32, n)
	}
	rng := f.classDraws.At(uint64(number), 0)
	for i := range into {
		into[i] = int32(rng.IntN(f.data.Classes))
	}
	return into
}

// chains runs one set of chains from the buffer. set tells the sets of one batch apart.
func (f *feed) chains(ctx context.Context, number int, k rowRange, classes []int32, set uint64) (h health, err error) {
	x := f.rows(k)
	rng := f.draws.At(uint64(number), set)
	anew := f.buffer.Draw(x, f.slots, classes, f.cfg.Sampler.Restart, rng.Rand)
	keys := make([]uint64, k.n())
	for i := range keys {
		keys[i] = f.key(number, k.from+i)
	}
	st, err := f.sampler.Run(ctx, langevin.Chains{X: x, Keys: keys, Classes: classes}, nil)
	if err != nil {
		var broken *langevin.NonFinite
		if errors.As(err, &broken) {
			err = &trouble{kind: divergence, what: err.Error()}
		}
		return h, err
	}
	f.buffer.Put(f.slots, x)
	return health{sampleMean: mean(x), atBounds: st.AtBounds,
		displacement: st.Displacement, energyDrop: st.EnergyDrop, acceptance: st.Acceptance, restarts: float64(anew) / float64(k.n())}, nil
}
