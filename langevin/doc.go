// Package langevin draws samples from an energy-based model by stochastic gradient Langevin dynamics (SGLD). One
// sampler serves training, where chains persist in a replay buffer, and sampling from a finished model.
//
// The step is x <- x + step_size * d(log density)/dx + noise_std * N(0, I), with the gradient clipped and the state
// clamped where the configuration says so. It is equation 2 of Welling and Teh (2011) with the two factors set
// apart, as Grathwohl et al. (2019, section 4 and appendix H.3) use it: step_size is their alpha / 2.
package langevin
