package scripting

import (
	"math"
	"strconv"

	"codeq/scripting/lua"
)

// jsonLibrary is the library cjson, or an instance that cjson.new made: its functions share one configuration. Encoding is in
// lib_cjson_encode.go and decoding in lib_cjson_decode.go.
//
// In Redis a script that configures cjson configures it for all later scripts. Here the scripts that follow each other
// on a state have nothing to do with each other, so each run starts with the defaults.
type jsonLibrary struct {
	st     *state
	config jsonConfig
}

// jsonConfig are the settings of an instance.
type jsonConfig struct {
	// An array whose highest index is above sparseSafe and more than sparseRatio times the number of its elements is sparse.
	// sparseConvert makes it an object; otherwise it is refused. The ratio 0 turns the check off.
	sparseConvert           int
	sparseRatio, sparseSafe int
	encodeDepth             int
	decodeDepth             int
	precision               int // significant digits of an encoded number
	keepBuffer              int // has no effect here
	// encodeInvalid says what becomes of infinities and NaN: an index of invalidNumbers.
	encodeInvalid int
	decodeInvalid int // whether infinities, NaN and hexadecimal numbers are taken
}

func defaultJSON() jsonConfig {
	return jsonConfig{sparseRatio: 2, sparseSafe: 10, encodeDepth: 1000, decodeDepth: 1000, precision: 14, keepBuffer: 1,
		decodeInvalid: 1}
}

// Indexes of invalidNumbers.
const (
	invalidRefused = iota
	invalidAllowed
	invalidNull
)

// functions answers the instance's functions.
func (j *jsonLibrary) functions() map[string]lua.GoFunc {
	c := &j.config
	toggles := []string{"off", "on"}
	invalidNumbers := []string{"off", "on", "null"}
	return map[string]lua.GoFunc{
		"encode": j.encode,
		"decode": j.decode,
		"new":    j.fork,
		"encode_sparse_array": func(L *lua.Thread) int {
			optionArgs(L, 3)
			return choiceOption(L, 1, &c.sparseConvert, toggles) +
				integerOption(L, 2, &c.sparseRatio, 0, math.MaxInt32) +
				integerOption(L, 3, &c.sparseSafe, 0, math.MaxInt32)
		},
		"encode_max_depth":        oneInteger(&c.encodeDepth, 1, math.MaxInt32),
		"decode_max_depth":        oneInteger(&c.decodeDepth, 1, math.MaxInt32),
		"encode_number_precision": oneInteger(&c.precision, 1, lua.TextDigits),
		"encode_keep_buffer":      oneChoice(&c.keepBuffer, toggles),
		"encode_invalid_numbers":  oneChoice(&c.encodeInvalid, invalidNumbers),
		"decode_invalid_numbers":  oneChoice(&c.decodeInvalid, toggles),
	}
}

// jsonConstants are the values of an instance's table that are no functions.
func jsonConstants() map[string]lua.Value {
	return map[string]lua.Value{"null": lua.Null, "_NAME": lua.String("cjson"), "_VERSION": lua.String("2.1.0")}
}

// fork is cjson.new: an instance with the default settings, in a table that the script may change.
func (j *jsonLibrary) fork(L *lua.Thread) int {
	instance := &jsonLibrary{st: j.st, config: defaultJSON()}
	L.Push(newLibrary(instance.functions(), jsonConstants()).Value())
	return 1
}

// optionArgs refuses more arguments than so many and makes the missing ones nil, below the results.
func optionArgs(L *lua.Thread, most int) {
	if L.Top() > most {
		argError(L, most+1, "found too many arguments")
	}
	L.SetTop(most)
}

func oneInteger(setting *int, least, most int) lua.GoFunc {
	return func(L *lua.Thread) int {
		optionArgs(L, 1)
		return integerOption(L, 1, setting, least, most)
	}
}

func oneChoice(setting *int, names []string) lua.GoFunc {
	return func(L *lua.Thread) int {
		optionArgs(L, 1)
		return choiceOption(L, 1, setting, names)
	}
}

// integerOption sets a setting to the argument, if there is one, and answers the setting.
func integerOption(L *lua.Thread, n int, setting *int, least, most int) int {
	if !L.Arg(n).IsNil() {
		v := checkInt(L, n)
		if v < least || v > most {
			// The first argument is blamed whichever it was, as in Redis.
			argError(L, 1, "expected integer between "+strconv.Itoa(least)+" and "+strconv.Itoa(most))
		}
		*setting = v
	}
	return pushNumber(L, float64(*setting))
}

// choiceOption sets a setting to the index of the name that the argument is, if there is one, and answers the setting. The
// first two names are those of false and true.
func choiceOption(L *lua.Thread, n int, setting *int, names []string) int {
	switch v := L.Arg(n); v.Kind() {
	case lua.KindNil:
	case lua.KindBool:
		*setting = 0
		if v.Truth() {
			*setting = 1
		}
	default:
		*setting = checkChoice(L, n, names)
	}
	if *setting <= 1 {
		L.Push(lua.Bool(*setting == 1))
	} else {
		L.Push(lua.String(names[*setting]))
	}
	return 1
}

func checkChoice(L *lua.Thread, n int, names []string) int {
	text := checkString(L, n)
	for i, name := range names {
		if text == name {
			return i
		}
	}
	argError(L, n, "invalid option '"+text+"'")
	return 0
}
