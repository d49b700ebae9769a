package resp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll returns all commands, as words joined by a bar, and the error after them.
func readAll(r *Reader) (commands []string, err error) {
	for {
		batch, err := r.ReadBatch()
		if err != nil {
			return commands, err
		}
		for _, args := range batch {
			commands = append(commands, string(bytes.Join(args, []byte("|"))))
		}
	}
}

func trustedReader(src io.Reader, lim *Limits) *Reader {
	r := NewReader(src, lim)
	r.SetAuthenticated(true)
	return r
}

func TestReadBatch(t *testing.T) {
	long := strings.Repeat("x", DefaultMaxInline)
	for _, c := range []struct {
		in   string
		want []string
		err  error
	}{
		{"", nil, io.EOF},
		{"*1\r\n$4\r\nPING\r\n", []string{"PING"}, io.EOF},
		{"*2\r\n$4\r\nECHO\r\n$0\r\n\r\nPING\r\n", []string{"ECHO|", "PING"}, io.EOF},
		{"*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\x00*\r\n", []string{"ECHO|\r\n\x00*"}, io.EOF},
		{"*0\r\n*-1\r\n*-5\r\n\r\n\n  \t \r\nPING\n", []string{"PING"}, io.EOF},
		{"*1\rx$4\rxPINGxx", []string{"PING"}, io.EOF},
		{"  set  a\t'b c' \"d\\x41\\n\\\"\\q\" '\\'\\n'\r\n", []string{`set|a|b c|dA` + "\n" + `"q|'\n`}, io.EOF},
		{"ECHO \"\" '' a\"b c\"\r\n", []string{"ECHO|||ab c"}, io.EOF},
		{"ECHO \"\\xZ1\\x4\"\r\n", []string{"ECHO|xZ1x4"}, io.EOF},
		{"ECHO a\vb \v c\r\n", []string{"ECHO|a\vb|c"}, io.EOF},
		{"*1\r\n$4\r\nPI", nil, io.ErrUnexpectedEOF},
		{"PING\r\n*1\r\n", []string{"PING"}, io.ErrUnexpectedEOF},
		{"PING", nil, io.ErrUnexpectedEOF},
		{"PING\r\n*1\r\n:1\r\nPING\r\n", []string{"PING"}, ErrProtoExpectedBulk(':')},
		{"*1\r\n\r\n", nil, ErrProtoExpectedBulk('\r')},
		{"*x\r\n", nil, ErrProtoMultibulkLen},
		{"*\r\n", nil, ErrProtoMultibulkLen},
		{"*+1\r\n", nil, ErrProtoMultibulkLen},
		{"*01\r\n", nil, ErrProtoMultibulkLen},
		{"*1048577\r\n", nil, ErrProtoMultibulkLen},
		{"*9000000000000000000\r\n", nil, ErrProtoMultibulkLen},
		{"*1\r\n$9223372036854775807\r\nxx\r\n", nil, ErrProtoBulkLen},
		{"*1\r\n$9223372036854775808\r\nxx\r\n", nil, ErrProtoBulkLen},
		{"*1\r\n$-9223372036854775808\r\nxx\r\n", nil, ErrProtoBulkLen},
		{"*1\r\n$-1\r\n", nil, ErrProtoBulkLen},
		{"*1\r\n$-0\r\n", nil, ErrProtoBulkLen},
		{"*1\r\n$00\r\n", nil, ErrProtoBulkLen},
		{"*1\r\n$536870913\r\n", nil, ErrProtoBulkLen},
		{"PING \"a\r\n", nil, ErrProtoUnbalancedQuotes},
		{"PING 'a\r\n", nil, ErrProtoUnbalancedQuotes},
		{"PING \"a\"b\r\n", nil, ErrProtoUnbalancedQuotes},
		{"PING \"a\\\"\r\n", nil, ErrProtoUnbalancedQuotes},
		{long[1:] + "\r\n", []string{long[1:]}, io.EOF},
		{long + "x\r\n", nil, ErrProtoBigInline},
		{long + "x", nil, ErrProtoBigInline},
		{"*" + strings.Repeat("1", DefaultMaxInline), nil, ErrProtoBigMultibulk},
		{"*1\r\n$" + strings.Repeat("1", DefaultMaxInline), nil, ErrProtoBigBulk},
	} {
		name := c.in[:min(len(c.in), 40)]
		for _, src := range []io.Reader{
			strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in)),
		} {
			got, err := readAll(trustedReader(src, NewLimits()))
			if !slices.Equal(got, c.want) {
				t.Errorf("%q (%T): commands %q, want %q", name, src, got, c.want)
			}
			var protocol *ProtocolError
			if errors.As(err, &protocol) {
				err = protocol.Reply
			}
			if err != c.err {
				t.Errorf("%q (%T): error %v, want %v", name, src, err, c.err)
			}
		}
	}
}

func TestReadErrorsStay(t *testing.T) {
	r := trustedReader(strings.NewReader("*x\r\n*1\r\n$4\r\nPING\r\n"), NewLimits())
	for range 3 {
		if batch, err := r.ReadBatch(); batch != nil || err == nil || err.Error() != string(ErrProtoMultibulkLen) {
			t.Fatalf("got %q, %v", batch, err)
		}
	}
	if _, err := trustedReader(silent{}, NewLimits()).ReadBatch(); err != io.ErrNoProgress {
		t.Errorf("a source without data or error gives %v", err)
	}
}

// silent is a broken source.
type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func TestUnauthenticatedLimits(t *testing.T) {
	eleven := "*11\r\n" + strings.Repeat("$1\r\na\r\n", 11)
	large := "*2\r\n$4\r\nECHO\r\n$16385\r\n" + strings.Repeat("x", 16385) + "\r\n"
	for _, c := range []struct {
		in   string
		want Error
	}{{eleven, ErrProtoUnauthMultibulkLen}, {large, ErrProtoUnauthBulkLen}} {
		if _, err := NewReader(strings.NewReader(c.in), NewLimits()).ReadBatch(); err == nil || err.Error() != string(c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		// The command behind an AUTH is judged after it was executed.
		r := NewReader(strings.NewReader("AUTH x\r\n"+c.in+"PING\r\n"), NewLimits())
		if batch, err := r.ReadBatch(); err != nil || len(batch) != 1 {
			t.Fatalf("got %d commands, %v", len(batch), err)
		}
		r.SetAuthenticated(true)
		if got, err := readAll(r); len(got) != 2 || err != io.EOF {
			t.Errorf("after authentication: %d commands, %v", len(got), err)
		}
	}
}

func TestBatchLimits(t *testing.T) {
	lim := NewLimits()
	lim.MaxBatchCommands.Store(3)
	r := trustedReader(strings.NewReader(strings.Repeat("PING\r\n", 7)), lim)
	for _, want := range []int{3, 3, 1} {
		if batch, err := r.ReadBatch(); err != nil || len(batch) != want {
			t.Fatalf("%d commands, %v, want %d", len(batch), err, want)
		}
	}
	lim.MaxBatchCommands.Store(100)
	lim.MaxBatchBytes.Store(10)
	r = trustedReader(strings.NewReader(strings.Repeat("PING\r\n", 3)), lim)
	for _, want := range []int{2, 1} {
		if batch, err := r.ReadBatch(); err != nil || len(batch) != want {
			t.Fatalf("%d commands, %v, want %d", len(batch), err, want)
		}
	}
}

// TestLinearWork cuts a megabyte into single bytes and counts what the reader does, for each kind of request.
func TestLinearWork(t *testing.T) {
	const size = 1 << 20
	for name, in := range map[string]string{
		"one argument":   "*2\r\n$4\r\nECHO\r\n$" + strconv.Itoa(size) + "\r\n" + strings.Repeat("x", size) + "\r\n",
		"many arguments": "*100000\r\n" + strings.Repeat("$5\r\nabcde\r\n", 100000),
		"many commands":  strings.Repeat("*1\r\n$4\r\nPING\r\n", 75000),
		"many lines":     strings.Repeat("\r\n", 100000) + strings.Repeat("ECHO a b c\r\n", 75000),
		"long lines":     strings.Repeat(strings.Repeat("x", 60000)+"\r\n", 17),
		"long header":    "*" + strings.Repeat("1", 60000),
	} {
		r := trustedReader(iotest.OneByteReader(strings.NewReader(in)), NewLimits())
		if _, err := readAll(r); err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Errorf("%s: %v", name, err)
		}
		if limit := 6*len(in) + 10*minReadBuffer; r.work > limit {
			t.Errorf("%s: %d steps for %d bytes", name, r.work, len(in))
		}
	}
}

// TestPromisesReserveNothing announces much and sends little.
func TestPromisesReserveNothing(t *testing.T) {
	lim := NewLimits()
	lim.MaxBulkLen.Store(1 << 30)
	for _, in := range []string{"*1\r\n$1073741824\r\nabc", "*1048576\r\n$1\r\na\r\n", "*1048576\r\n$536870912\r\n"} {
		r := trustedReader(strings.NewReader(in), lim)
		if _, err := r.ReadBatch(); err != io.ErrUnexpectedEOF {
			t.Errorf("%q: %v", in, err)
		}
		if cap(r.buf) > minReadBuffer || cap(r.spans) > 16 || cap(r.args) > 16 {
			t.Errorf("%q reserves %d bytes, %d spans, %d arguments", in, cap(r.buf), cap(r.spans), cap(r.args))
		}
	}
}

func TestQueryBufferLimit(t *testing.T) {
	lim := NewLimits()
	lim.MaxQueryBuffer.Store(100 << 10)
	fits := "*1\r\n$102384\r\n" + strings.Repeat("x", 102384) + "\r\n"
	if len(fits) > 100<<10 {
		t.Fatalf("the command has %d bytes", len(fits))
	}
	exceeds := strings.Replace(fits, "*1\r\n", "*2\r\n$9\r\n123456789\r\n", 1)
	r := trustedReader(strings.NewReader(fits+exceeds), lim)
	got, err := readAll(r)
	if len(got) != 1 || err != ErrQueryBufferLimit {
		t.Errorf("%d commands, %v", len(got), err)
	}
	if cap(r.buf) > 100<<10 {
		t.Errorf("the buffer has %d bytes", cap(r.buf))
	}
}

func TestReaderShrinks(t *testing.T) {
	pr, pw := io.Pipe()
	r := trustedReader(pr, NewLimits())
	go func() { // stopped by the last write being read
		_, _ = io.WriteString(pw, "*2\r\n$4\r\nECHO\r\n$1000000\r\n"+strings.Repeat("x", 1000000)+"\r\n")
		_, _ = io.WriteString(pw, "*10000\r\n"+strings.Repeat("$1\r\na\r\n", 10000))
		_, _ = io.WriteString(pw, "PING\r\n")
		_ = pw.Close()
	}()
	got, err := readAll(r)
	if len(got) != 3 || err != io.EOF {
		t.Fatalf("%d commands, %v", len(got), err)
	}
	if cap(r.buf) > keepReadBuffer || cap(r.args) > keepArgs || cap(r.spans) > keepArgs {
		t.Errorf("an idle reader keeps %d bytes, %d arguments, %d spans", cap(r.buf), cap(r.args), cap(r.spans))
	}
}

// endless repeats a pipeline for ever, one round for each read.
type endless struct{ round []byte }

func (l endless) Read(b []byte) (int, error) { return copy(b, l.round), nil }

func pipeline(depth int) []byte {
	return bytes.Repeat([]byte("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$3\r\nxxx\r\n"), depth)
}

func TestReadBatchDoesNotAllocate(t *testing.T) {
	r := trustedReader(endless{pipeline(16)}, NewLimits())
	read := func() {
		if batch, err := r.ReadBatch(); err != nil || len(batch) != 16 {
			t.Fatalf("%d commands, %v", len(batch), err)
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("%v allocations for each batch", n)
	}
}

func BenchmarkReadBatch(b *testing.B) {
	for _, depth := range []int{1, 16} {
		b.Run(strconv.Itoa(depth), func(b *testing.B) {
			r := trustedReader(endless{pipeline(depth)}, NewLimits())
			b.ReportAllocs()
			for n := 0; n < b.N; n += depth {
				if _, err := r.ReadBatch(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// cutter delivers data in pieces whose sizes the cuts decide, in turn.
type cutter struct {
	data, cuts []byte
	next       int
}

func (c *cutter) Read(b []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	size := len(c.data)
	if len(c.cuts) > 0 {
		size = int(c.cuts[c.next%len(c.cuts)]) + 1
		c.next++
	}
	n := copy(b, c.data[:min(size, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

// FuzzReader checks that no input panics or exceeds the limits, and that neither the way in which it is cut nor the limits of
// a batch change the result.
func FuzzReader(f *testing.F) {
	for _, in := range malformed() {
		f.Add([]byte(in), []byte{0}, true)
	}
	f.Add(pipeline(3), []byte{1, 7, 2}, false)
	f.Fuzz(func(t *testing.T, in, cuts []byte, auth bool) {
		const limit = 512
		read := func(cuts []byte, batch int64) ([]string, error) {
			lim := NewLimits()
			lim.MaxBulkLen.Store(100)
			lim.MaxInline.Store(60)
			lim.MaxArgs.Store(20)
			lim.MaxQueryBuffer.Store(limit)
			lim.MaxBatchCommands.Store(batch)
			lim.MaxBatchBytes.Store(batch * 20)
			r := NewReader(&cutter{data: slices.Clone(in), cuts: cuts}, lim)
			r.SetAuthenticated(auth)
			commands, err := readAll(r)
			if cap(r.buf) > limit || cap(r.args) > 2*limit || cap(r.spans) > 2*limit {
				t.Fatalf("%d bytes, %d arguments, %d spans", cap(r.buf), cap(r.args), cap(r.spans))
			}
			return commands, err
		}
		want, wantErr := read(nil, 1000)
		for _, batch := range []int64{1, 5, 1000} {
			got, err := read(cuts, batch)
			if !slices.Equal(got, want) || err.Error() != wantErr.Error() {
				t.Fatalf("whole: %q, %v\ncut: %q, %v", want, wantErr, got, err)
			}
		}
	})
}
