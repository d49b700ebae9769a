package rdb

import (
	"errors"
	"fmt"
)

// opFunctions precedes the code of a library of functions, a string. What FUNCTION DUMP replies is any number of these in the
// place of a value.
const opFunctions = 245

// ErrNotFunctions says that a payload holds something else than libraries of functions.
var ErrNotFunctions = errors.New("rdb: the payload holds something else than libraries of functions")

// EncodeFunctions writes the payload of libraries of functions, of which it gets the code.
func EncodeFunctions(libraries []string) []byte {
	w := new(writer)
	for _, code := range libraries {
		w.byte(opFunctions)
		w.str([]byte(code))
	}
	return sealed(w.b)
}

// EachFunctions calls fn with the code of each library of a payload, up to the first error. The code may refer to the payload.
func EachFunctions(payload []byte, fn func(code []byte) error) error {
	body, err := unsealed(payload)
	if err != nil {
		return err
	}
	r := &reader{rest: body, budget: MaxSize}
	for len(r.rest) > 0 {
		if op := r.byte(); op != opFunctions {
			return fmt.Errorf("%w: type %d", ErrNotFunctions, op)
		}
		code := r.str()
		if r.err != nil {
			return r.err
		}
		if err := fn(code); err != nil {
			return err
		}
	}
	return nil
}
