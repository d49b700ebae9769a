package rdb

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func codesOf(payload []byte) (codes []string, err error) {
	err = EachFunctions(payload, func(code []byte) error {
		codes = append(codes, string(code))
		return nil
	})
	return codes, err
}

func TestFunctions(t *testing.T) {
	// As redis-server 7.0.15 replies to FUNCTION DUMP without and with a library.
	const none = "\n\x00]\x9b\\@\x0f\x7f\xa2\xda"
	const code = "#!lua name=a\nredis.register_function('f',function() return 'a:f' end)"
	const one = "\xf5@E" + code + "\n\x00\x08!\x08\xdat1\xa0\xea"
	if got := string(EncodeFunctions(nil)); got != none {
		t.Errorf("no libraries: %q", got)
	}
	if got := string(EncodeFunctions([]string{code})); got != one {
		t.Errorf("one library: %q", got)
	}
	for _, want := range [][]string{nil, {code}, {code, "", "12", strings.Repeat("x", 100_000)}} {
		if got, err := codesOf(EncodeFunctions(want)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%.200q came back as %.200q, %v", want, got, err)
		}
	}
}

func TestFunctionsRefused(t *testing.T) {
	whole := EncodeFunctions([]string{"first", strings.Repeat("second", 50)})
	body := whole[:len(whole)-footerLen]
	for n := range whole {
		if _, err := codesOf(whole[:n]); !errors.Is(err, ErrPayload) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	first := len("\xf5\x05first")
	for n := 1; n < len(body); n++ {
		codes, err := codesOf(sealed(slices.Clone(body[:n])))
		if n == first {
			if err != nil || len(codes) != 1 {
				t.Errorf("one whole library: %q, %v", codes, err)
			}
		} else if !errors.Is(err, ErrFormat) {
			t.Errorf("cut to %d bytes and sealed: %v", n, err)
		}
	}
	for _, other := range []string{"\x00\x01x", "\xf6\x01x", "\xf5\x01x\x00"} {
		if _, err := codesOf(sealed([]byte(other))); !errors.Is(err, ErrNotFunctions) {
			t.Errorf("%q: %v", other, err)
		}
	}
	stop := errors.New("stop")
	if err := EachFunctions(whole, func([]byte) error { return stop }); err != stop {
		t.Errorf("stopped: %v", err)
	}
}
