package gorgonia

import (
	"math"

	"github.com/jempipe/jempipe/model"
)

// activate writes f(x) to y, element by element.
func activate(f model.Activation, x, y []float32) {
	y = y[:len(x)]
	switch f {
	case model.SiLU:
		sigmoids(x, y)
		for i, v := range x {
			y[i] *= v
		}
	case model.ReLU:
		for i, v := range x {
			y[i] = max(v, 0)
		}
	case model.LeakyReLU:
		for i, v := range x {
			if !(v > 0) {
				v *= model.LeakySlope
			}
			y[i] = v
		}
	case model.Tanh:
		for i, v := range x {
			y[i] = float32(math.Tanh(float64(v)))
		}
	case model.Softplus:
		for i, v := range x {
			y[i] = float32(max(float64(v), 0) + math.Log1p(math.Exp(-math.Abs(float64(v)))))
		}
	case model.ELU:
		for i, v := range x {
			if !(v > 0) {
				v = float32(math.Expm1(float64(v)))
			}
			y[i] = v
		}
	case model.GELU:
		for i, v := range x {
			y[i] = float32(float64(v) * normalCDF(float64(v)))
		}
	}
}

// activateGrad writes dy * f'(x) to dx. The slope of ReLU and LeakyReLU at 0 is that of negative inputs.
func activateGrad(f model.Activation, x, dy, dx []float32) {
	dy, dx = dy[:len(x)], dx[:len(x)]
	switch f {
	case model.SiLU:
		sigmoids(x, dx)
		for i, v := range x {
			s := dx[i]
			dx[i] = dy[i] * (s + v*s*(1-s))
		}
	case model.ReLU:
		for i, v := range x {
			dx[i] = dy[i]
			if !(v > 0) {
				dx[i] = 0
			}
		}
	case model.LeakyReLU:
		for i, v := range x {
			dx[i] = dy[i]
			if !(v > 0) {
				dx[i] *= model.LeakySlope
			}
		}
	case model.Tanh:
		for i, v := range x {
			t := math.Tanh(float64(v))
			dx[i] = dy[i] * float32(1-t*t)
		}
	case model.Softplus:
		sigmoids(x, dx)
		for i, v := range dy {
			dx[i] *= v
		}
	case model.ELU:
		for i, v := range x {
			dx[i] = dy[i]
			if !(v > 0) {
				dx[i] *= float32(math.Exp(float64(v)))
			}
		}
	case model.GELU:
		for i, v := range x {
			u := float64(v)
			density := math.Exp(-u*u/2) / math.Sqrt(2*math.Pi)
			dx[i] = dy[i] * float32(normalCDF(u)+u*density)
		}
	}
}

// normalCDF is (1 + erf(x / sqrt 2)) / 2, without the loss of digits that the sum has for negative x.
func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// sigmoids writes 1/(1+exp(-x)) to s, with a relative error below 3e-7. It reduces the argument to exp(-x) = 2^n * exp(f)
// with |f| <= ln(2)/2, and takes the polynomial of expf in Cephes (Moshier 1989) for exp(f). Package math's Exp takes
// several times as long, and so does float64: its conversions make each element wait for the one before. There is no
// branch on the sign of x, which no processor could guess.
func sigmoids(x, s []float32) {
	const (
		magic  = 3 << 22 // adding it rounds to an integer, which then stands in the low bits
		limit  = 87      // beyond it exp leaves the range of float32
		ln2    = 0.693359375
		ln2Low = -2.12194440e-4 // ln2 + ln2Low is ln(2); products of ln2 with small integers are exact
	)
	s = s[:len(x)]
	for i, v := range x {
		if !(v < limit && v > -limit) {
			s[i] = saturated(v)
			continue
		}
		t := magic - v*math.Log2E
		n := t - magic
		f := (-v - n*ln2) - n*ln2Low
		g := f * f
		p := (5.0000001201e-1 + f*1.6666665459e-1) + g*((4.1665795894e-2+f*8.3334519073e-3)+g*(1.3981999507e-3+f*1.9875691500e-4))
		p = (p*g + f) + 1
		s[i] = 1 / (1 + p*math.Float32frombits((math.Float32bits(t)+127)<<23))
	}
}

// saturated is the sigmoid of a large number or NaN.
func saturated(x float32) float32 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return 0
	}
	return x
}

// logSumExp is log(sum(exp(z))), with the largest logit taken out. A row with NaN or +Inf gives no finite value.
func logSumExp(z []float32) float64 {
	top := math.Inf(-1)
	for _, v := range z {
		top = math.Max(top, float64(v))
	}
	var sum float64
	for _, v := range z {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

// loss is sum_r alpha_r*lse_r + beta_r*lse_r^2 + sum_k gamma_rk*z_rk over the rows of z, which is [len(alpha),k].
func loss(z, alpha, beta, gamma []float32, k int) float32 {
	var sum float64
	for r := range alpha {
		row := z[r*k : (r+1)*k]
		lse := logSumExp(row)
		sum += float64(alpha[r])*lse + float64(beta[r])*lse*lse
		for i, v := range row {
			sum += float64(gamma[r*k+i]) * float64(v)
		}
	}
	return float32(sum)
}

// lossGrad is the gradient of loss with respect to z times seed: (alpha + 2*beta*lse)*softmax + gamma.
func lossGrad(z, alpha, beta, gamma []float32, k int, seed float32, dz []float32) {
	for r := range alpha {
		row := z[r*k : (r+1)*k]
		lse := logSumExp(row)
		scale := float64(alpha[r]) + 2*float64(beta[r])*lse
		for i, v := range row {
			g := scale*math.Exp(float64(v)-lse) + float64(gamma[r*k+i])
			dz[r*k+i] = float32(float64(seed) * g)
		}
	}
}
