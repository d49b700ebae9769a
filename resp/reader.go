package resp

import (
	"bytes"
	"errors"
	"io"

	"codeq/internal/words"
)

// Sizes of a reader's own memory. Beyond them a buffer grows only as data arrives, and shrinks when it is empty again.
const (
	minReadBuffer  = 4 << 10  // a new or idle connection's buffer
	keepReadBuffer = 64 << 10 // the largest buffer that stays with a connection between commands
	keepArgs       = 4 << 10  // the largest argument table that stays with a connection between batches
	maxEmptyReads  = 100      // reads in a row without data or error, after which the source is broken
)

// ErrQueryBufferLimit is ReadBatch's error when one command exceeds MaxQueryBuffer. As in Redis, the connection is closed
// without a reply.
var ErrQueryBufferLimit = errors.New("resp: client query buffer limit exceeded")

// ProtocolError says that the client sent what is not the Redis protocol. Reply is sent to it, then the connection is
// closed.
type ProtocolError struct{ Reply Error }

func (e *ProtocolError) Error() string { return string(e.Reply) }

// span is one argument's place in the buffer.
type span struct{ start, end int }

// Reader reads commands, both multibulk and inline, from a connection. It belongs to one goroutine.
//
// The buffer holds, in order: the commands of the last batch, the rest that has arrived. Arguments are kept as offsets
// until a batch is complete, so that the buffer may move while a command is still on its way. The place in an unfinished
// command is kept between reads: each byte is looked at once however the input is cut, apart from the start of a command
// that was left unfinished by a batch, which is looked at twice.
type Reader struct {
	src  io.Reader
	lim  *Limits
	auth bool
	err  error // what ends the stream; returned when the commands before it are

	buf   []byte
	start int // where the first command that was not returned yet begins
	pos   int // where parsing goes on
	scan  int // buf[pos:scan] is known to hold no end of line
	w     int // buf[w:] is free

	left    int  // multibulk: arguments still to come; 0 between commands
	bulkLen int  // the length of the argument that comes next, noBulk when its header is still to come
	filled  bool // the last read filled the buffer
	more    bool // behind the last batch there is data that was not parsed

	spans []span // the arguments of the batch, then those of the unfinished command
	ends  []int  // for each command of the batch, the end of its spans
	args  [][]byte
	cmds  [][][]byte

	work int // bytes looked at or moved, so that a test can tell that the cost is linear
}

const noBulk = -1

// NewReader returns a reader of src that obeys lim. It takes the client for not authenticated until SetAuthenticated.
func NewReader(src io.Reader, lim *Limits) *Reader {
	return &Reader{src: src, lim: lim, bulkLen: noBulk}
}

// SetAuthenticated says whether the client has authenticated, or needn't. Before that the tighter limits hold, and
// ReadBatch returns one command at a time, so that the limits for what follows an AUTH in the same pipeline are the right
// ones.
func (r *Reader) SetAuthenticated(ok bool) { r.auth = ok }

// ReadBatch waits until at least one whole command has arrived and returns all whole commands that have, up to the limits
// of a batch; what lies beyond is returned by the next call. A command has at least one argument, its name. The slices
// are valid until the next ReadBatch; their bytes may be changed in place.
//
// The error is that of the connection (io.EOF at its end, io.ErrUnexpectedEOF inside a command), a *ProtocolError, or
// ErrQueryBufferLimit. It comes after the commands that precede it, and is the same for every later call. Of a source that
// doesn't wait it may also be errWouldBlock, after which a later call goes on where this one has stopped.
func (r *Reader) ReadBatch() ([][][]byte, error) {
	if len(r.ends) > 0 {
		r.resetBatch()
	}
	for {
		r.parse()
		if len(r.ends) > 0 {
			return r.batch(), nil
		}
		if r.err == io.EOF && r.w > r.start {
			r.err = io.ErrUnexpectedEOF
		}
		if r.err != nil {
			return nil, r.err
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// resetBatch forgets the commands of the last batch and what was parsed of the one behind it.
func (r *Reader) resetBatch() {
	if cap(r.spans) > keepArgs {
		r.spans, r.args = nil, nil
	}
	r.spans, r.ends = r.spans[:0], r.ends[:0]
	r.pos, r.scan, r.left, r.bulkLen = r.start, r.start, 0, noBulk
}

// parse adds whole commands to the batch until the data, or the room in the batch, ends.
func (r *Reader) parse() {
	maxCommands, maxBytes := int(r.lim.MaxBatchCommands.Load()), int(r.lim.MaxBatchBytes.Load())
	if !r.auth {
		maxCommands = 1
	}
	first := r.start
	r.more = false
	for r.pos < r.w && isOpen(r.err) && r.command() {
		r.start, r.scan = r.pos, r.pos
		if len(r.ends) >= maxCommands || (len(r.ends) > 0 && r.pos-first >= maxBytes) {
			r.more = r.pos < r.w
			break
		}
	}
	r.more = r.more || r.err != nil
}

// oversized tells whether the buffer is to shrink, which it does in the next ReadBatch.
func (r *Reader) oversized() bool { return len(r.buf) > keepReadBuffer && r.w-r.start <= minReadBuffer }

// isOpen says whether data in the buffer may still be parsed: an error of the connection comes after all of its data, a
// protocol error ends it.
func isOpen(err error) bool {
	_, broken := err.(*ProtocolError)
	return !broken
}

// batch turns offsets into slices. The buffer stays where it is until the next batch.
func (r *Reader) batch() [][][]byte {
	n := r.ends[len(r.ends)-1]
	if cap(r.args) < n {
		r.args = make([][]byte, n, cap(r.spans))
	}
	r.args = r.args[:n]
	for i, s := range r.spans[:n] {
		r.args[i] = r.buf[s.start:s.end:s.end]
	}
	r.cmds = r.cmds[:0]
	from := 0
	for _, end := range r.ends {
		r.cmds = append(r.cmds, r.args[from:end:end])
		from = end
	}
	return r.cmds
}

// fill reads once. No whole command is in the buffer. It returns errWouldBlock, which ends nothing.
func (r *Reader) fill() error {
	r.makeRoom()
	if r.err != nil {
		return nil
	}
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.w:])
		r.w += n
		r.filled = r.w == len(r.buf)
		if err == errWouldBlock {
			return err
		}
		r.err = err
		if n > 0 || err != nil {
			return nil
		}
	}
	r.err = io.ErrNoProgress
	return nil
}

// makeRoom moves the unfinished command to the start of the buffer and grows or shrinks the buffer as needed.
func (r *Reader) makeRoom() {
	size := len(r.buf)
	unread := r.w - r.start
	switch limit := int(r.lim.MaxQueryBuffer.Load()); {
	case unread >= limit:
		r.err = ErrQueryBufferLimit
		return
	case r.oversized():
		size = keepReadBuffer
	case unread == size || (r.filled && size < keepReadBuffer):
		size = min(r.grown(), max(limit, unread+1))
	}
	r.filled = false
	if size == len(r.buf) && r.start == 0 {
		return
	}
	to := r.buf
	if size != len(r.buf) {
		to = make([]byte, size)
		clear(r.args[:cap(r.args)]) // they would keep the old buffer alive
	}
	copy(to, r.buf[r.start:r.w])
	r.work += unread
	for i := range r.spans {
		r.spans[i].start -= r.start
		r.spans[i].end -= r.start
	}
	r.buf, r.pos, r.scan, r.w = to, r.pos-r.start, r.scan-r.start, unread
	r.start = 0
}

// grown is the next size of the buffer: twice the present one, so that the cost of copying stays linear and at most half
// of the memory is a client's mere promise; less if that is enough for a large argument on its way.
func (r *Reader) grown() int {
	size := max(minReadBuffer, 2*len(r.buf))
	if r.bulkLen == noBulk || r.bulkLen >= size {
		return size
	}
	need := r.pos - r.start + r.bulkLen + len("\r\n") + minReadBuffer
	if need < len(r.buf)+len(r.buf)/2 {
		return size
	}
	return min(size, need)
}

// command parses one command as far as it has arrived. It reports whether it is whole; an empty one is whole and adds
// nothing.
func (r *Reader) command() bool {
	r.work++
	if r.left == 0 {
		if r.buf[r.pos] != '*' {
			return r.inline()
		}
		if !r.multibulk() {
			return false
		}
		if r.left == 0 {
			return true
		}
	}
	for r.left > 0 {
		if r.bulkLen == noBulk && !r.bulkHeader() {
			return false
		}
		if r.w-r.pos-len("\r\n") < r.bulkLen {
			return false
		}
		end := r.pos + r.bulkLen
		// Like Redis, take the two bytes after an argument for its end of line without looking.
		r.spans = append(r.spans, span{r.pos, end})
		r.pos = end + len("\r\n")
		r.scan = r.pos
		r.bulkLen = noBulk
		r.left--
	}
	r.ends = append(r.ends, len(r.spans))
	return true
}

// multibulk parses "*<number of arguments>".
func (r *Reader) multibulk() bool {
	n, next, ok := r.header(ErrProtoBigMultibulk)
	if next == 0 {
		return false
	}
	if !ok || n > r.lim.MaxArgs.Load() {
		return r.fail(ErrProtoMultibulkLen)
	}
	if !r.auth && n > r.lim.MaxArgsUnauth.Load() {
		return r.fail(ErrProtoUnauthMultibulkLen)
	}
	r.left = int(max(n, 0))
	r.pos, r.scan = next, next
	return true
}

// bulkHeader parses "$<length of the argument>".
func (r *Reader) bulkHeader() bool {
	n, next, ok := r.header(ErrProtoBigBulk)
	if next == 0 {
		return false
	}
	if c := r.buf[r.pos]; c != '$' {
		return r.fail(ErrProtoExpectedBulk(c))
	}
	if !ok || n < 0 || n > r.lim.MaxBulkLen.Load() {
		return r.fail(ErrProtoBulkLen)
	}
	if !r.auth && n > r.lim.MaxBulkUnauth.Load() {
		return r.fail(ErrProtoUnauthBulkLen)
	}
	r.bulkLen = int(n)
	r.pos, r.scan = next, next
	return true
}

// header reads the number in the line at pos, whose first byte is its type. next is where the line after it begins, 0
// when the line has not arrived yet or is too long; ok is whether the number is one. Like Redis, it takes the byte after
// the CR for a LF without looking.
func (r *Reader) header(tooBig Error) (n int64, next int, ok bool) {
	const short = 8 // a number of so few bytes can't overflow, and nearly all are so short
	line := r.buf[r.pos:r.w]
	for i := 1; i < len(line) && i < short; i++ {
		c := line[i]
		if c >= '0' && c <= '9' {
			n = n*10 + int64(c-'0')
			continue
		}
		if c == '\r' && i > 1 && i+1 < len(line) && (line[1] != '0' || i == 2) {
			return n, r.pos + i + 2, true
		}
		break
	}
	r.work++
	end := r.lineEnd('\r', tooBig)
	if end < 0 || end+1 == r.w {
		return 0, 0, false
	}
	// The CR may stand where the type should.
	n, ok = parseInt(r.buf[min(r.pos+1, end):end])
	return n, end + 2, ok
}

// lineEnd finds the byte that ends the line at pos; -1 when it has not arrived or comes too late. It remembers how far it
// has looked.
func (r *Reader) lineEnd(mark byte, tooBig Error) int {
	end := bytes.IndexByte(r.buf[r.scan:r.w], mark)
	if end < 0 {
		r.work += r.w - r.scan
		r.scan, end = r.w, r.w
	} else {
		r.work += end
		r.scan += end
		end = r.scan
	}
	if int64(end-r.pos) > r.lim.MaxInline.Load() {
		r.fail(tooBig)
		return -1
	}
	if end == r.w {
		return -1
	}
	return end
}

// inline parses a line of words. Like Redis, it ends the line at a LF with or without a CR before it.
func (r *Reader) inline() bool {
	end := r.lineEnd('\n', ErrProtoBigInline)
	if end < 0 {
		return false
	}
	line := r.buf[r.pos:end]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	spans, ok := appendWords(r.spans, line, r.pos)
	if !ok {
		return r.fail(ErrProtoUnbalancedQuotes)
	}
	if len(spans) > len(r.spans) {
		r.spans = spans
		r.ends = append(r.ends, len(spans))
	}
	r.pos = end + 1
	return true
}

// appendWords splits a line into words, which are unescaped in place, and appends their places to spans; offset is the line's
// place in the buffer. It reports false when quotes are unbalanced.
func appendWords(spans []span, line []byte, offset int) ([]span, bool) {
	for next := 0; ; {
		var start, end int
		var ok bool
		if start, end, next, ok = words.Next(line, next); !ok {
			return spans, false
		}
		if start == len(line) {
			return spans, true
		}
		spans = append(spans, span{offset + start, offset + end})
	}
}

func (r *Reader) fail(reply Error) bool {
	r.err = &ProtocolError{Reply: reply}
	return false
}

// parseInt reads a decimal number as strictly as Redis does: no plus sign, no leading zero, no "-0", no overflow.
func parseInt(b []byte) (int64, bool) {
	const maxLen = len("-9223372036854775808")
	if len(b) == 0 || len(b) > maxLen {
		return 0, false
	}
	digits, negative := b, b[0] == '-'
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || (digits[0] == '0' && len(b) > 1) {
		return 0, false
	}
	// Counting downwards reaches the smallest number, which has no positive counterpart.
	const lowest = -1 << 63
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := int64(c - '0')
		if n < lowest/10 || n*10 < lowest+d {
			return 0, false
		}
		n = n*10 - d
	}
	if negative {
		return n, true
	}
	return -n, n != lowest
}
