package luaparse

import (
	"math"
	"strconv"
	"strings"
)

const space = " \t\n\v\f\r"

// Number reads a number as the reference implementation's strtod does: decimal with an optional exponent, hexadecimal
// with an optional fraction and binary exponent, inf and nan, with white space around it.
func Number(text string) (float64, bool) {
	if value, ok := shortNumber(text); ok {
		return value, true
	}
	text = strings.Trim(text, space)
	if text == "" {
		return 0, false
	}
	body, negative := text, false
	if body[0] == '+' || body[0] == '-' {
		negative = body[0] == '-'
		body = body[1:]
	}
	value, ok := unsigned(body)
	if negative {
		value = -value
	}
	return value, ok
}

// shortNumber reads a few digits with nothing around them, which is the usual case.
func shortNumber(text string) (float64, bool) {
	if text == "" || len(text) > 15 {
		return 0, false
	}
	value := 0
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		value = value*10 + int(text[i]-'0')
	}
	return float64(value), true
}

func unsigned(body string) (float64, bool) {
	if body == "" || strings.IndexByte(body, '_') >= 0 {
		return 0, false
	}
	if c := body[0]; c != '.' && (c < '0' || c > '9') {
		switch strings.ToLower(body) {
		case "inf", "infinity":
			return math.Inf(1), true
		case "nan":
			return math.NaN(), true
		}
		return 0, false
	}
	if len(body) > 1 && body[0] == '0' && (body[1] == 'x' || body[1] == 'X') {
		return hexadecimal(body)
	}
	value, err := strconv.ParseFloat(body, 64)
	if err != nil && !math.IsInf(value, 0) {
		return 0, false
	}
	return value, true
}

func hexadecimal(body string) (float64, bool) {
	if !strings.ContainsAny(body, "pP") {
		body += "p0"
	}
	value, err := strconv.ParseFloat(body, 64)
	if err != nil && !math.IsInf(value, 0) {
		return 0, false
	}
	return value, true
}
