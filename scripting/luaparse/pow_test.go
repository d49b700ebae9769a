package luaparse

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestPowersAreRoundedToNearest compares powers with exact ones. The exponents are fractions of 1024, for which roots are enough.
func TestPowersAreRoundedToNearest(t *testing.T) {
	const turns, precision = 3000, 600
	rnd := rand.New(rand.NewPCG(1, 1))
	wrong := 0
	for range turns {
		a, b := 1+10*rnd.Float64(), float64(rnd.IntN(40))
		switch rnd.IntN(4) {
		case 0:
			a, b = math.Exp(rnd.Float64()*200-100), float64(rnd.IntN(4096)-2048)/1024
		case 1:
			b = -b
		case 2:
			a, b = 1+(rnd.Float64()-0.5)/1024, float64(rnd.IntN(100_000))/1024
		}
		root, factor := big.NewFloat(a).SetPrec(precision), big.NewFloat(1).SetPrec(precision)
		for n := int(math.Abs(b)); n > 0; n-- {
			factor.Mul(factor, root)
		}
		for rest := math.Abs(b) - math.Floor(math.Abs(b)); rest > 0; {
			root.Sqrt(root)
			if rest *= 2; rest >= 1 {
				factor.Mul(factor, root)
				rest--
			}
		}
		if b < 0 {
			factor.Quo(big.NewFloat(1).SetPrec(precision), factor)
		}
		want, _ := factor.Float64()
		got := power(a, b)
		if got != want {
			wrong++
		}
		if got != want && got != math.Nextafter(want, got) {
			t.Errorf("%v^%v = %v, want %v", a, b, got, want)
		}
	}
	if wrong > turns/200 {
		t.Errorf("%d of %d powers are not rounded to the nearest number", wrong, turns)
	}
}

// TestSpecialPowers checks what Redis answers for numbers that are none, infinite or zero.
func TestSpecialPowers(t *testing.T) {
	inf, nan := math.Inf(1), math.Float64frombits(0x7ff8000000000000)
	minusNaN := math.Copysign(nan, -1)
	minusZero := math.Copysign(0, -1)
	for _, c := range []struct{ a, b, want float64 }{
		{minusNaN, 1, nan}, {minusNaN, 2, minusNaN}, {minusNaN, -1, nan}, {minusNaN, 0.5, minusNaN}, {minusNaN, -2, minusNaN}, {nan, 1, nan},
		{minusNaN, 0, 1}, {1, minusNaN, 1}, {minusNaN, nan, minusNaN}, {nan, minusNaN, nan}, {2, minusNaN, minusNaN}, {2, nan, nan},
		{minusNaN, inf, minusNaN}, {minusNaN, 1e300, minusNaN}, {-8, 1. / 3, minusNaN}, {-inf, 1, -inf}, {-inf, 2, inf}, {-inf, -1, minusZero},
		{-1, inf, 1}, {0.5, inf, 0}, {-2, inf, inf}, {minusZero, -1, -inf}, {minusZero, 3, minusZero}, {minusZero, 2, 0}, {0, -1, inf},
		{-2, 3, -8}, {-2, 2, 4}, {-2, -1, -0.5}, {2, 1024, inf}, {2, -1075, 0}, {2, -1074, 5e-324}, {10, 400.5, inf}, {10, -400.5, 0},
		{1e-300, -1.5, inf},
		{2, 0.5, math.Sqrt2}, {3, 40, 12157665459056928801}, {10, 15, 1e15},
	} {
		got := power(c.a, c.b)
		same := got == c.want || math.IsNaN(got) && math.IsNaN(c.want)
		if !same || math.Signbit(got) != math.Signbit(c.want) {
			t.Errorf("%v^%v = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
