// Package score turns logits into energies, out-of-distribution scores, calibration figures and ranking metrics.
// Every function is pure: no I/O, no clock, no random numbers.
//
// Conventions, which hold for the whole package:
//
//   - Logits come as float32, one row of K values a sample; everything is computed in float64.
//   - Energy is -logsumexp(logits); low means likely.
//   - A detector score s is larger for samples that look more out of distribution (OOD). OOD is the positive class.
//     A threshold t flags the rows with s >= t.
//   - Equal scores enter as one block, so that no metric depends on the order of the rows. Sums over rows are exact
//     (see [Sum]), so that it does not depend on batches, shards or threads either, to the last bit.
//   - What is not defined is a [Metric] without a value and with a reason, never 0, 0.5 or a NaN inside an average.
//   - NaN rows are left out and counted. Infinite scores are legal: +Inf is the energy of a row whose logits are all
//     -Inf, and ranks as most OOD.
package score
