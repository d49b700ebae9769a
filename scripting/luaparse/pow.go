package luaparse

import "math"

// power is a^b, rounded to the nearest number but for a few in thousands. It is C's pow therefore, which errs by hardly more than the
// rounding; math.Pow multiplies rounded numbers and may be off by dozens of the last places, which scripts see where they hand a number
// to a command.
//
// It computes with pairs of numbers, whose sum has twice the precision (Dekker: "A Floating-Point Technique for Extending the Available
// Precision", 1971): powers of whole numbers by squaring, others as e^(b ln a).
func power(a, b float64) float64 {
	whole := math.Trunc(b) == b
	odd := whole && math.Abs(math.Mod(b, 2)) == 1
	switch {
	case math.IsNaN(a) && odd:
		return math.Abs(a)
	case math.IsNaN(a-a) || math.IsNaN(b-b) || a == 0 || b == 0 || a == 1 || a < 0 && !whole: // the former of what is infinite, too
		return NaN(math.Pow(a, b), a, b)
	case odd:
		return math.Copysign(positivePower(math.Abs(a), b), a)
	}
	return positivePower(math.Abs(a), b)
}

const (
	// maxFactors bounds the powers that are made by squaring, so that no square is too large for a number.
	maxFactors = 1024
	// beyondNumbers is more than the logarithm of any number.
	beyondNumbers = 800
	// ln2High and ln2Low are ln 2 in two parts, the first of which has so few digits that it can be multiplied by an exponent exactly.
	ln2High = 0x1.62e42fefa38p-1
	ln2Low  = 0x1.ef35793c7673p-45
)

func positivePower(a, b float64) float64 {
	mantissa, exponent := math.Frexp(a)
	if mantissa < math.Sqrt2/2 {
		mantissa, exponent = 2*mantissa, exponent-1
	}
	if n := math.Abs(b); n <= maxFactors && math.Trunc(n) == n {
		p := wholePower(mantissa, int(n))
		if b < 0 {
			p = p.inverse()
		}
		return math.Ldexp(p.high, exponent*int(b))
	}
	l := logarithm(mantissa)
	e := float64(exponent)
	p := exactSum(e*ln2High, l.high).plus(l.low + e*ln2Low).times(pair{b, 0})
	if math.Abs(p.high) > beyondNumbers {
		return math.Exp(p.high)
	}
	k := math.Round(p.high / math.Ln2)
	return math.Ldexp(exponential(exactSum(p.high-k*ln2High, -k*ln2Low).plus(p.low)).high, int(k))
}

// pair is the sum of two numbers, of which high is what the sum is rounded to.
type pair struct{ high, low float64 }

// exactSum is a + b; a must be the larger one, or 0.
func exactSum(a, b float64) pair {
	s := a + b
	return pair{s, b - (s - a)}
}

func (p pair) plus(v float64) pair { return exactSum(p.high, p.low+v) }

func (p pair) times(q pair) pair {
	high := float64(p.high * q.high)
	return exactSum(high, math.FMA(p.high, q.high, -high)+(p.high*q.low+p.low*q.high))
}

func (p pair) inverse() pair {
	high := 1 / p.high
	return exactSum(high, high*(math.FMA(-high, p.high, 1)-high*p.low))
}

// wholePower is v^n.
func wholePower(v float64, n int) pair {
	p, square := pair{1, 0}, pair{v, 0}
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = p.times(square)
		}
		square = square.times(square)
	}
	return p
}

// smallPart is the binary exponent below which the series of exponential is as exact as it has to be.
const smallPart = -9

// exponential is e^p for |p| up to 1/2. It is squared out of that of a small part of p, for which it is 1 + p + p²/2 and a rest that
// need not be exact.
func exponential(p pair) pair {
	_, exponent := math.Frexp(p.high)
	halvings := max(0, exponent-smallPart)
	part := math.Ldexp(1, -halvings)
	p = pair{p.high * part, p.low * part}
	square, x := p.times(p), p.high
	rest := x * x * x * (1./6 + x*(1./24+x*(1./120+x*(1./720+x/5040))))
	e := exactSum(1, p.high).plus(p.low)
	e = exactSum(e.high, square.high/2).plus(e.low + square.low/2 + rest)
	for range halvings {
		e = e.times(e)
	}
	return e
}

// logarithm is ln v: that of math, and what e to its power is short of v by.
func logarithm(v float64) pair {
	l := math.Log(v)
	e := exponential(pair{l, 0})
	short := ((v - e.high) - e.low) / v
	return exactSum(l, short).plus(short * short / 2)
}
