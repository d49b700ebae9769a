package scripting

import (
	"math"

	lua "github.com/yuin/gopher-lua"

	"codeq/scripting/luaparse"
)

var infinity = math.Inf(1)

func (st *state) mathLibrary() map[string]lua.LGFunction {
	library := map[string]lua.LGFunction{
		"deg":   func(L *lua.LState) int { return pushNumber(L, checkNumber(L, 1)/(math.Pi/180)) },
		"rad":   func(L *lua.LState) int { return pushNumber(L, checkNumber(L, 1)*(math.Pi/180)) },
		"atan2": two(math.Atan2), "fmod": two(math.Mod), "mod": two(math.Mod),
		"pow": two(func(a, b float64) float64 { return luaparse.Compute('^', a, b) }),
		"frexp": func(L *lua.LState) int {
			fraction, exponent := math.Frexp(checkNumber(L, 1))
			L.Push(lua.LNumber(fraction))
			L.Push(lua.LNumber(exponent))
			return 2
		},
		"ldexp": func(L *lua.LState) int {
			exponent := checkInt(L, 2)
			v := checkNumber(L, 1)
			return pushNumber(L, luaparse.NaN(math.Ldexp(v, exponent), v, v))
		},
		"max":    extreme(func(a, b float64) bool { return a > b }),
		"min":    extreme(func(a, b float64) bool { return a < b }),
		"modf":   mathModf,
		"random": st.mathRandom,
		"randomseed": func(L *lua.LState) int {
			st.random = randomSeed(int32(toInt(checkNumber(L, 1))))
			return 0
		},
	}
	for name, fn := range map[string]func(float64) float64{
		"atan": math.Atan, "ceil": math.Ceil, "cos": math.Cos,
		"cosh": math.Cosh, "exp": math.Exp, "floor": math.Floor, "log": math.Log, "sin": math.Sin,
		"sinh": math.Sinh, "sqrt": math.Sqrt, "tan": math.Tan, "tanh": math.Tanh,
	} {
		library[name] = func(L *lua.LState) int {
			v := checkNumber(L, 1)
			return pushNumber(L, luaparse.NaN(fn(v), v, v))
		}
	}
	// What is not a number is a positive one where the reference implementation's library makes it so.
	for name, fn := range map[string]func(float64) float64{"acos": math.Acos, "asin": math.Asin, "log10": math.Log10} {
		library[name] = func(L *lua.LState) int {
			v := checkNumber(L, 1)
			if r := fn(v); !math.IsNaN(r) || !math.IsNaN(v) {
				v = r
			}
			return pushNumber(L, v)
		}
	}
	library["abs"] = func(L *lua.LState) int { return pushNumber(L, math.Abs(checkNumber(L, 1))) }
	return library
}

func pushNumber(L *lua.LState, v float64) int {
	L.Push(lua.LNumber(v))
	return 1
}

// two makes a function of two numbers. The second is checked first, as the compiler of the reference implementation has it.
func two(fn func(a, b float64) float64) lua.LGFunction {
	return func(L *lua.LState) int {
		b := checkNumber(L, 2)
		a := checkNumber(L, 1)
		return pushNumber(L, luaparse.NaN(fn(a, b), a, b))
	}
}

func extreme(better func(a, b float64) bool) lua.LGFunction {
	return func(L *lua.LState) int {
		best := checkNumber(L, 1)
		for i := 2; i <= L.GetTop(); i++ {
			if v := checkNumber(L, i); better(v, best) {
				best = v
			}
		}
		return pushNumber(L, best)
	}
}

func mathModf(L *lua.LState) int {
	v := checkNumber(L, 1)
	whole, fraction := math.Trunc(v), 0.0
	if !math.IsInf(v, 0) {
		fraction = v - whole
	}
	L.Push(lua.LNumber(whole))
	L.Push(lua.LNumber(fraction))
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

func (st *state) mathRandom(L *lua.LState) int {
	st.random = (st.random*randomFactor + randomAddend) & randomMask
	r := float64((st.random>>17)%randomMax) / randomMax
	switch L.GetTop() {
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
		return pushNumber(L, math.Floor(r*float64(upper-lower+1))+float64(lower))
	}
	raise(L, "wrong number of arguments")
	return 0
}
