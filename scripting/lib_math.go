package scripting

import (
	"math"

	"codeq/scripting/lua"
	"codeq/scripting/luaparse"
)

var infinity = math.Inf(1)

func (st *state) mathLibrary() map[string]lua.GoFunc {
	library := map[string]lua.GoFunc{
		"abs":   func(L *lua.Thread) int { return pushNumber(L, math.Abs(checkNumber(L, 1))) },
		"deg":   func(L *lua.Thread) int { return pushNumber(L, checkNumber(L, 1)/(math.Pi/180)) },
		"rad":   func(L *lua.Thread) int { return pushNumber(L, checkNumber(L, 1)*(math.Pi/180)) },
		"atan2": two(math.Atan2), "fmod": two(math.Mod), "mod": two(math.Mod), "pow": mathPow,
		"frexp": func(L *lua.Thread) int {
			fraction, exponent := math.Frexp(checkNumber(L, 1))
			L.Push(lua.Number(fraction))
			L.Push(lua.Number(float64(exponent)))
			return 2
		},
		"ldexp": func(L *lua.Thread) int {
			exponent := checkInt(L, 2)
			v := checkNumber(L, 1)
			return pushNumber(L, luaparse.NaN(math.Ldexp(v, exponent), v, v))
		},
		"max":    mathMax,
		"min":    mathMin,
		"modf":   mathModf,
		"random": st.mathRandom,
		"randomseed": func(L *lua.Thread) int {
			st.random = randomSeed(int32(checkInt(L, 1)))
			return 0
		},
	}
	for name, fn := range map[string]func(float64) float64{
		"atan": math.Atan, "ceil": math.Ceil, "cos": math.Cos,
		"cosh": math.Cosh, "exp": math.Exp, "floor": math.Floor, "log": math.Log, "sin": math.Sin,
		"sinh": math.Sinh, "sqrt": math.Sqrt, "tan": math.Tan, "tanh": math.Tanh,
	} {
		library[name] = func(L *lua.Thread) int {
			v := checkNumber(L, 1)
			return pushNumber(L, luaparse.NaN(fn(v), v, v))
		}
	}
	// What is not a number is a positive one where the reference implementation's library makes it so.
	for name, fn := range map[string]func(float64) float64{"acos": math.Acos, "asin": math.Asin, "log10": log10} {
		library[name] = func(L *lua.Thread) int {
			v := checkNumber(L, 1)
			if r := fn(v); !math.IsNaN(r) || !math.IsNaN(v) {
				v = r
			}
			return pushNumber(L, v)
		}
	}
	return library
}

func pushNumber(L *lua.Thread, v float64) int {
	L.Push(lua.Number(v))
	return 1
}

// two makes a function of two numbers. The second is checked first, as the compiler of the reference implementation has it.
func two(fn func(a, b float64) float64) lua.GoFunc {
	return func(L *lua.Thread) int {
		b := checkNumber(L, 2)
		a := checkNumber(L, 1)
		return pushNumber(L, luaparse.NaN(fn(a, b), a, b))
	}
}

func mathPow(L *lua.Thread) int {
	b := checkNumber(L, 2)
	return pushNumber(L, luaparse.Compute(luaparse.Pow, checkNumber(L, 1), b))
}

// log10 is exact for powers of ten, as C's is: math.Log10(1000) is less than 3.
func log10(v float64) float64 {
	r := math.Log10(v)
	if whole := math.Round(r); math.Pow10(int(whole)) == v {
		return whole
	}
	return r
}

func mathMax(L *lua.Thread) int {
	most := checkNumber(L, 1)
	for i := 2; i <= L.Top(); i++ {
		if v := checkNumber(L, i); v > most {
			most = v
		}
	}
	return pushNumber(L, most)
}

func mathMin(L *lua.Thread) int {
	least := checkNumber(L, 1)
	for i := 2; i <= L.Top(); i++ {
		if v := checkNumber(L, i); v < least {
			least = v
		}
	}
	return pushNumber(L, least)
}

// mathModf answers the whole part of a number and the fraction, which has the number's sign even if it is zero.
func mathModf(L *lua.Thread) int {
	v := checkNumber(L, 1)
	whole, fraction := math.Trunc(v), 0.0
	if !math.IsInf(v, 0) {
		fraction = v - whole
	}
	L.Push(lua.Number(whole))
	L.Push(lua.Number(math.Copysign(fraction, v)))
	return 2
}

// The generator is POSIX' lrand48, as in Redis, so that a script draws the same numbers on each run and on each server:
// x' = (a*x + c) mod 2^48, of which the upper 31 bits are the answer.
const (
	randomFactor = 0x5DEECE66D
	randomAddend = 0xB
	randomMask   = 1<<48 - 1
	randomLow    = 0x330E
	randomStart  = 0x1234ABCD<<16 | randomLow
	randomMax    = math.MaxInt32
)

func randomSeed(seed int32) uint64 { return uint64(uint32(seed))<<16 | randomLow }

func (st *state) mathRandom(L *lua.Thread) int {
	st.random = (st.random*randomFactor + randomAddend) & randomMask
	r := float64((st.random>>17)%randomMax) / randomMax
	switch L.Top() {
	case 0:
		return pushNumber(L, r)
	case 1:
		upper := checkInt(L, 1)
		if upper < 1 {
			argError(L, 1, "interval is empty")
		}
		return pushNumber(L, math.Floor(r*float64(upper))+1)
	case 2:
		lower, upper := checkInt(L, 1), checkInt(L, 2)
		if lower > upper {
			argError(L, 2, "interval is empty")
		}
		width := int32(upper - lower + 1) // which may be negative, as in Redis
		return pushNumber(L, math.Floor(r*float64(width))+float64(lower))
	}
	L.Raise("wrong number of arguments")
	return 0
}
