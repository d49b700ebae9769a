package luaparse

import "math"

// fold computes an arithmetic operator whose operands are constants, or answers nil. As in the reference implementation nothing is
// divided by zero and no NaN is made. This can be seen: all zeros among a function's constants have the sign of the first, so it
// matters which ones there are.
func fold(op Op, left, right Expr) Expr {
	a, ok := left.(*Numeral)
	if !ok {
		return nil
	}
	b, ok := right.(*Numeral)
	if !ok || op > Pow || b.Value == 0 && (op == Div || op == Mod) {
		return nil
	}
	v := Compute(op, a.Value, b.Value)
	if math.IsNaN(v) {
		return nil
	}
	return &Numeral{v}
}

// foldUnary computes an operator whose operand is a constant, or answers nil. A length is never computed.
func foldUnary(op Op, operand Expr) Expr {
	switch x := operand.(type) {
	case *Nil, *False:
		if op == Not {
			return &True{}
		}
	case *True, *Text:
		if op == Not {
			return &False{}
		}
	case *Numeral:
		switch op {
		case Not:
			return &False{}
		case Minus:
			return &Numeral{-x.Value}
		}
	}
	return nil
}

// foldLogical is the right operand of an `and` or `or` whose left one is a constant that leaves the decision to it, or nil.
func foldLogical(or bool, left, right Expr) Expr {
	switch left.(type) {
	case *Nil, *False:
		if !or {
			return nil
		}
	case *True, *Numeral, *Text:
		if or {
			return nil
		}
	default:
		return nil
	}
	return single(right)
}

// single cuts an expression with several values to the first.
func single(e Expr) Expr {
	switch e.(type) {
	case *Call, *Vararg:
		return &Paren{e}
	}
	return e
}

// Compute carries out an arithmetic operator, Add to Pow, as the reference implementation does.
func Compute(op Op, a, b float64) float64 {
	switch op {
	case Add:
		return a + b
	case Sub:
		return a - b
	case Mul:
		return a * b
	case Div:
		return a / b
	case Mod:
		return a - float64(math.Floor(a/b)*b) // rounded before the subtraction, on every machine
	}
	return power(a, b)
}

// NaN is the result of a function of a and b, but for which NaN it is, if it is one: scripts see the sign. It is that of
// an argument which is one, else the one that an x86 processor makes, which is negative.
func NaN(v, a, b float64) float64 {
	switch {
	case !math.IsNaN(v):
		return v
	case math.IsNaN(a):
		return a
	case math.IsNaN(b):
		return b
	}
	return math.Copysign(v, -1)
}
