package score

import (
	"math"
	"math/big"
)

// DeLong is the standard error of AUROC (DeLong, DeLong and Clarke-Pearson 1988) from mid-ranks (Sun and Xu 2014). The
// sums of squares are exact integers, so that nothing cancels and no order of rows matters.
//
// It returns a reason instead when it says nothing: ReasonTooFewRows with fewer than two rows in a group,
// ReasonAtBoundary when AUROC is exactly 0 or 1, where the estimate is 0 however few the rows are, and
// ReasonZeroVariance where it is 0 elsewhere (all scores equal).
func (r *Ranking) DeLong() (se float64, reason string) {
	if reason := r.reason(); reason != "" {
		return nan, reason
	}
	if r.n < 2 || r.p < 2 {
		return nan, ReasonTooFewRows
	}
	if r.rankSum == 0 || r.rankSum == 2*uint64(r.n)*uint64(r.p) {
		return nan, ReasonAtBoundary
	}
	variance := r.placementVariance(r.oodRanks, r.p, r.n) + r.placementVariance(r.idRanks, r.n, r.p)
	if variance == 0 {
		return nan, ReasonZeroVariance
	}
	return math.Sqrt(variance), ""
}

// placementVariance is the sample variance of the placements of the rows of one group (each row's share of the other
// group that it beats), divided by the rows of that group. squares is the sum of the squares of the placements times
// twice the size of the other group.
func (r *Ranking) placementVariance(squares uint128, own, other int64) float64 {
	total := new(big.Int).SetUint64(r.rankSum)
	spread := squares.big()
	spread.Mul(spread, big.NewInt(own))
	spread.Sub(spread, total.Mul(total, total)) // own * sum x^2 - (sum x)^2
	m, k := float64(own), float64(other)
	return bigFloat(spread) / (m * (m - 1)) / m / (4 * k * k)
}
