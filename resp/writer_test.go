package resp

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestWriterLengths writes strings of lengths of one to four digits.
func TestWriterLengths(t *testing.T) {
	for _, n := range []int{0, 9, 10, 99, 100, 1000} {
		text := strings.Repeat("x", n)
		want := fmt.Sprintf("$%d\r\n%s\r\n*%d\r\n", n, text, n)
		var ofBytes, ofString Writer
		ofBytes.Bulk([]byte(text))
		ofBytes.Array(n)
		ofString.BulkString(text)
		ofString.Array(n)
		if string(ofBytes.Bytes()) != want || string(ofString.Bytes()) != want {
			t.Errorf("length %d: %q and %q, want %q", n, ofBytes.Bytes(), ofString.Bytes(), want)
		}
	}
}

func TestWriter(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(*Writer)
		two   string
		three string // as two when empty
	}{
		{"ok", func(w *Writer) { w.OK() }, "+OK\r\n", ""},
		{"status", func(w *Writer) { w.Status("a\r\nb") }, "+a  b\r\n", ""},
		{"error", func(w *Writer) { w.Error(ErrWrongType) }, "-" + string(ErrWrongType) + "\r\n", ""},
		{"wrapped", func(w *Writer) { w.Error(fmt.Errorf("get: %w", ErrSyntax)) }, "-ERR syntax error\r\n", ""},
		{"foreign", func(w *Writer) { w.Error(errors.New("disk\nfull")) }, "-ERR disk full\r\n", ""},
		{"int", func(w *Writer) { w.Int(math.MinInt64) }, ":-9223372036854775808\r\n", ""},
		{"bulk", func(w *Writer) { w.Bulk([]byte("a\r\n")) }, "$3\r\na\r\n\r\n", ""},
		{"bulk in pieces", func(w *Writer) {
			room := w.BulkRoom(5)
			copy(room, "ab")
			copy(room[3:], "de")
		}, "$5\r\nab\x00de\r\n", ""},
		{"bulk of no pieces", func(w *Writer) { w.BulkRoom(0) }, "$0\r\n\r\n", ""},
		{"nil", func(w *Writer) { w.Bulk(nil) }, "$0\r\n\r\n", ""},
		{"string", func(w *Writer) { w.BulkString("abc") }, "$3\r\nabc\r\n", ""},
		{"null", func(w *Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		{"null array", func(w *Writer) { w.NullArray() }, "*-1\r\n", "_\r\n"},
		{"array", func(w *Writer) { w.Array(12) }, "*12\r\n", ""},
		{"map", func(w *Writer) { w.Map(2) }, "*4\r\n", "%2\r\n"},
		{"set", func(w *Writer) { w.Set(2) }, "*2\r\n", "~2\r\n"},
		{"push", func(w *Writer) { w.Push(2) }, "*2\r\n", ">2\r\n"},
		{"double", func(w *Writer) { w.Double(3.1) }, "$18\r\n3.1000000000000001\r\n", ",3.1000000000000001\r\n"},
		{"true", func(w *Writer) { w.Bool(true) }, ":1\r\n", "#t\r\n"},
		{"false", func(w *Writer) { w.Bool(false) }, ":0\r\n", "#f\r\n"},
		{"big number", func(w *Writer) { w.BigNumber("12") }, "$2\r\n12\r\n", "(12\r\n"},
		{"verbatim", func(w *Writer) { w.Verbatim("txt", "ab") }, "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"},
		{"raw", func(w *Writer) { w.Raw([]byte(":1\r\n")) }, ":1\r\n", ""},
	} {
		var w Writer
		c.write(&w)
		w.SetProto(3)
		mark := w.Len()
		c.write(&w)
		want := c.three
		if want == "" {
			want = c.two
		}
		if got := string(w.Bytes()); got != c.two+want {
			t.Errorf("%s: %q, want %q", c.name, got, c.two+want)
		}
		if w.Truncate(mark); string(w.Bytes()) != c.two || w.Proto() != 3 {
			t.Errorf("%s: after Truncate %q, protocol %d", c.name, w.Bytes(), w.Proto())
		}
	}
}

func TestWriterLimit(t *testing.T) {
	var w Writer
	w.SetLimit(100)
	w.BulkString(strings.Repeat("x", 80))
	if w.Overflowed() {
		t.Fatal("80 bytes exceed 100")
	}
	for range 1000 {
		w.Bulk(make([]byte, 50))
	}
	if !w.Overflowed() || w.Len() > 100 {
		t.Errorf("overflowed: %v, %d bytes", w.Overflowed(), w.Len())
	}
	w.Reset()
	w.SetLimit(0)
	w.Bulk(make([]byte, 2*keepWriteBuffer))
	if w.Overflowed() {
		t.Error("a limit of 0 limits")
	}
	if w.Reset(); cap(w.buf) > keepWriteBuffer {
		t.Errorf("an empty writer keeps %d bytes", cap(w.buf))
	}
}

// TestWriterTakes: what an empty writer takes is not copied, and counts like everything else.
func TestWriterTakes(t *testing.T) {
	var w Writer
	large := make([]byte, 2*keepWriteBuffer)
	if w.Take(large); &w.Bytes()[0] != &large[0] {
		t.Error("copied")
	}
	w.Take([]byte("+OK\r\n"))
	if w.Len() != len(large)+5 {
		t.Errorf("%d bytes", w.Len())
	}
	if w.Reset(); cap(w.buf) > keepWriteBuffer {
		t.Errorf("an empty writer keeps %d bytes", cap(w.buf))
	}
	w.SetLimit(100)
	if w.Take(large); !w.Overflowed() || w.Len() > 0 {
		t.Errorf("overflowed: %v, %d bytes", w.Overflowed(), w.Len())
	}
}

func TestWriterDoesNotAllocate(t *testing.T) {
	var w Writer
	value := []byte("value")
	n := testing.AllocsPerRun(100, func() {
		w.Reset()
		for range 16 {
			w.OK()
			w.Bulk(value)
			w.Int(123456)
			w.Double(1.5)
			w.Map(3)
			w.Error(ErrWrongType)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestErrorTexts(t *testing.T) {
	if got := ErrWrongType.Code(); got != "WRONGTYPE" {
		t.Errorf("code %q", got)
	}
	if got := ErrConfigSet([]byte("a\nb"), "no\r\n"); got != "ERR CONFIG SET failed (possibly related to argument 'a b') - no" {
		t.Errorf("got %q", got)
	}
}

func TestFormatDouble(t *testing.T) {
	for f, want := range map[float64]string{
		math.Inf(1): "inf", math.Inf(-1): "-inf", 0: "0", -3: "-3", 3.1: "3.1000000000000001", 1e16: "10000000000000000", 1e17: "1e+17", 5e-324: "4.9406564584124654e-324",
	} {
		if got := FormatDouble(f); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := FormatDouble(math.Copysign(0, -1)); got != "-0" {
		t.Errorf("got %q", got)
	}
	// Like C, which prints the sign of what is not a number.
	if got := FormatDouble(math.Copysign(math.NaN(), 1)) + FormatDouble(math.Copysign(math.NaN(), -1)); got != "nan-nan" {
		t.Errorf("got %q", got)
	}
}
