package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/outputs"
)

// energyBins is how many bins the histogram of energies has.
const energyBins = 40

// energyHistogram draws the energies of training rows, validation rows and chains over each other; false without any.
func energyHistogram(rows []outputs.Energy) (Figure, bool) {
	fig := Figure{Title: "Energies at the end", Table: "energies",
		Caption: "Chains should lie where data lie; those at high energies have just begun, or were never drawn. Validation rows to the right of training rows: the density has learnt its training rows by heart."}
	var values [][]float64
	var sets []series
	lo, hi := math.Inf(1), math.Inf(-1)
	for i, set := range []struct{ key, name string }{
		{outputs.EnergyTrain, "training rows"}, {outputs.EnergyValid, "validation rows"}, {outputs.EnergyChains, "chains"},
	} {
		var v []float64
		for _, e := range rows {
			if e.Set == set.key && e.Energy != nil && finite(*e.Energy) {
				v = append(v, *e.Energy)
			}
		}
		if len(v) == 0 {
			continue
		}
		slices.Sort(v)
		tail := len(v) / 200 // half a per cent at each end may lie outside the axis
		lo, hi = min(lo, v[tail]), max(hi, v[len(v)-1-tail])
		values, sets = append(values, v), append(sets, series{name: set.name, class: seriesClass(i)})
	}
	if len(sets) == 0 {
		return fig, false
	}
	x := around([]float64{lo, hi})
	var hists []histogram
	var shares [][]float64
	desc := "Share of each set against the energy."
	beyond := false
	for i, v := range values {
		h := binned(v, x.lo, x.hi)
		beyond = beyond || v[0] < x.lo || v[len(v)-1] > x.hi
		hists, shares = append(hists, h), append(shares, h.shares())
		median := (v[(len(v)-1)/2] + v[len(v)/2]) / 2
		fig.Legend = append(fig.Legend, LegendEntry{sets[i].class, sets[i].name, "median " + brief(median)})
		desc += fmt.Sprintf(" %s: %s, median %s.", sets[i].name, count(int64(len(v))), significant(median))
	}
	if beyond {
		fig.Caption += " The outermost bins hold what lies beyond as well."
	}
	f := newFrame("t-energies", fig.Title, desc, x, around(append(shares, []float64{0})...), axisName("energy"), "Share of the set", chartHeight)
	for i, h := range hists {
		f.steps(h, shares[i], "spread "+sets[i].class, true)
	}
	for i, h := range hists {
		f.steps(h, shares[i], "line "+sets[i].class, false)
	}
	fig.SVG = f.html()
	return fig, true
}

// binned counts values in equal bins from lo to hi; what lies outside goes into the outermost ones.
func binned(values []float64, lo, hi float64) histogram {
	h := histogram{count: make([]int64, energyBins)}
	width := (hi - lo) / energyBins
	for i := range energyBins {
		h.lo, h.hi = append(h.lo, lo+float64(i)*width), append(h.hi, lo+float64(i+1)*width)
	}
	for _, v := range values {
		at := min(max((v-lo)/width, 0), energyBins-1)
		h.count[int(at)]++
	}
	return h
}
