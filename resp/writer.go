package resp

import (
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/tidwall/redcon"
)

// keepWriteBuffer is the largest reply buffer that stays with a connection between batches.
const keepWriteBuffer = 64 << 10

// Writer appends replies in RESP2 or RESP3 to a buffer. Its zero value writes RESP2 without a limit. It belongs to one
// goroutine.
type Writer struct {
	buf   []byte
	resp3 bool
	limit int  // 0 is none
	over  bool // something did not fit under the limit and was left out
}

// Proto is the protocol version, 2 or 3.
func (w *Writer) Proto() int {
	if w.resp3 {
		return 3
	}
	return 2
}

// SetProto switches to version 2 or 3 for the replies that follow.
func (w *Writer) SetProto(version int) { w.resp3 = version == 3 }

// SetLimit bounds the buffer to n bytes; 0 is no bound. What exceeds it is left out, which breaks the reply: see
// Overflowed.
func (w *Writer) SetLimit(n int) { w.limit = n }

// Limit is the bound of SetLimit.
func (w *Writer) Limit() int { return w.limit }

// Overflowed reports whether a reply was left out since the last Reset. The connection can't be used any more.
func (w *Writer) Overflowed() bool { return w.over }

// Len is the number of bytes in the buffer, a place to go back to with Truncate.
func (w *Writer) Len() int { return len(w.buf) }

// Truncate takes back all that was written beyond the first n bytes.
func (w *Writer) Truncate(n int) { w.buf = w.buf[:n] }

// Bytes is what was written, valid until the next call of another method.
func (w *Writer) Bytes() []byte { return w.buf }

// Reset empties the buffer and gives its memory back if it has become large.
func (w *Writer) Reset() {
	w.over = false
	if cap(w.buf) > keepWriteBuffer {
		w.buf = nil
		return
	}
	w.buf = w.buf[:0]
}

// fits checks the limit for values whose size the data decides. All other parts of a reply are a few bytes beside one.
func (w *Writer) fits(n int) bool {
	if w.limit > 0 && len(w.buf)+n > w.limit {
		w.over = true
	}
	return !w.over
}

// OK writes the status OK.
func (w *Writer) OK() { w.buf = redcon.AppendOK(w.buf) }

// Status writes a simple string.
func (w *Writer) Status(s string) { w.buf = redcon.AppendString(w.buf, s) }

// Error writes an error reply: an Error as it is, any other error with the code ERR before it.
func (w *Writer) Error(err error) {
	reply, ok := err.(Error)
	if !ok {
		reply = asReply(err)
	}
	w.buf = redcon.AppendError(w.buf, string(reply))
}

func asReply(err error) Error {
	var reply Error
	if errors.As(err, &reply) {
		return reply
	}
	return Error("ERR " + err.Error())
}

// Int writes an integer.
func (w *Writer) Int(n int64) { w.buf = redcon.AppendInt(w.buf, n) }

// Bulk writes a string of bytes. A nil slice is the empty string, not null.
func (w *Writer) Bulk(b []byte) {
	if w.fits(len(b)) {
		w.buf = appendBulk(w.buf, b)
	}
}

// BulkRoom writes a string of n zeros and returns their place, for the bytes of a string that is not in one piece. It is valid
// until the next call of another method. What does not fit has no place.
func (w *Writer) BulkRoom(n int) []byte {
	if !w.fits(n) {
		return nil
	}
	w.aggregate('$', n)
	start := len(w.buf)
	w.buf = slices.Grow(w.buf, n+len("\r\n"))[:start+n]
	clear(w.buf[start:])
	w.buf = append(w.buf, "\r\n"...)
	return w.buf[start : start+n]
}

// BulkString is Bulk for a string.
func (w *Writer) BulkString(s string) {
	if w.fits(len(s)) {
		w.buf = appendBulk(w.buf, s)
	}
}

func appendBulk[T []byte | string](buf []byte, b T) []byte {
	buf = append(appendLength(buf, '$', len(b)), b...)
	return append(buf, '\r', '\n')
}

// appendLength appends what a string or an aggregate begins with. Most lengths have one or two digits, and replies many of them.
func appendLength(buf []byte, kind byte, n int) []byte {
	switch {
	case n < 10:
		return append(buf, kind, '0'+byte(n), '\r', '\n')
	case n < 100:
		return append(buf, kind, '0'+byte(n/10), '0'+byte(n%10), '\r', '\n')
	}
	buf = strconv.AppendInt(append(buf, kind), int64(n), 10)
	return append(buf, '\r', '\n')
}

// Null writes the absence of a value: a null bulk string in RESP2.
func (w *Writer) Null() {
	if w.resp3 {
		w.buf = append(w.buf, "_\r\n"...)
		return
	}
	w.buf = redcon.AppendNull(w.buf)
}

// NullArray writes the absence of an array: a null array in RESP2.
func (w *Writer) NullArray() {
	if w.resp3 {
		w.Null()
		return
	}
	w.buf = append(w.buf, "*-1\r\n"...)
}

// Array begins an array of n elements, which follow.
func (w *Writer) Array(n int) { w.aggregate('*', n) }

// Map begins a map; the keys and values follow in turn. In RESP2 it is an array of both.
func (w *Writer) Map(pairs int) {
	if !w.resp3 {
		w.Array(2 * pairs)
		return
	}
	w.aggregate('%', pairs)
}

// Set begins a set of n elements, an array in RESP2.
func (w *Writer) Set(n int) { w.arrayLike('~', n) }

// Push begins a message of n elements that answers no command, an array in RESP2.
func (w *Writer) Push(n int) { w.arrayLike('>', n) }

func (w *Writer) arrayLike(kind byte, n int) {
	if !w.resp3 {
		kind = '*'
	}
	w.aggregate(kind, n)
}

func (w *Writer) aggregate(kind byte, n int) { w.buf = appendLength(w.buf, kind, n) }

// Double writes a floating-point number, a bulk string in RESP2.
func (w *Writer) Double(f float64) {
	var digits [32]byte
	text := AppendDouble(digits[:0], f)
	if !w.resp3 {
		w.buf = appendBulk(w.buf, text)
		return
	}
	w.buf = append(w.buf, ',')
	w.buf = append(w.buf, text...)
	w.buf = append(w.buf, "\r\n"...)
}

// Bool writes a truth value, 1 or 0 in RESP2.
func (w *Writer) Bool(b bool) {
	switch {
	case w.resp3 && b:
		w.buf = append(w.buf, "#t\r\n"...)
	case w.resp3:
		w.buf = append(w.buf, "#f\r\n"...)
	case b:
		w.Int(1)
	default:
		w.Int(0)
	}
}

// BigNumber writes the decimal digits of a large integer, a bulk string in RESP2.
func (w *Writer) BigNumber(digits string) {
	if !w.resp3 {
		w.BulkString(digits)
		return
	}
	if w.fits(len(digits)) {
		w.buf = append(w.buf, '(')
		w.buf = append(w.buf, digits...)
		w.buf = append(w.buf, "\r\n"...)
	}
}

// Verbatim writes a text for people, a bulk string in RESP2. kind has three letters, such as txt.
func (w *Writer) Verbatim(kind, text string) {
	if !w.resp3 {
		w.BulkString(text)
		return
	}
	if w.fits(len(text)) {
		w.aggregate('=', len(kind)+len(":")+len(text))
		w.buf = append(w.buf, kind...)
		w.buf = append(w.buf, ':')
		w.buf = append(w.buf, text...)
		w.buf = append(w.buf, "\r\n"...)
	}
}

// Raw writes bytes that are a reply already.
func (w *Writer) Raw(b []byte) {
	if w.fits(len(b)) {
		w.buf = append(w.buf, b...)
	}
}

// Take is Raw of bytes that the caller has no more use for: they become the buffer if that is empty.
func (w *Writer) Take(b []byte) {
	if len(w.buf) > 0 {
		w.Raw(b)
	} else if w.fits(len(b)) {
		w.buf = b
	}
}

// FormatDouble spells a floating-point number as Redis 7.0 does in replies.
func FormatDouble(f float64) string { return string(AppendDouble(nil, f)) }

// AppendDouble appends what FormatDouble returns. It is C's %.17g: integers without a point, 17 significant digits
// otherwise (3.1 is 3.1000000000000001).
func AppendDouble(b []byte, f float64) []byte {
	const exact = 1 << 53 // integers below are their own 17 digits
	switch {
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	case math.IsNaN(f) && math.Signbit(f):
		return append(b, "-nan"...)
	case math.IsNaN(f):
		return append(b, "nan"...)
	case f > -exact && f < exact && f == math.Trunc(f) && (f != 0 || !math.Signbit(f)):
		return strconv.AppendInt(b, int64(f), 10)
	}
	return strconv.AppendFloat(b, f, 'g', 17, 64)
}
