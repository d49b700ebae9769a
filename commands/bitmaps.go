package commands

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// Bitmaps: strings whose bits are numbered from the first byte's highest bit on. For a new command add an entry to the
// table and, in the same order, its handler. BITFIELD has a parser and a runner of its own at the end of the file; a new
// operation of it is a bitfieldKind.

func bitmapCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "setbit", Syntax: "SETBIT key offset value:integer",
			Group: spec.Bitmap, Since: "2.2.0", Complexity: "O(1)",
			Summary: "Sets or clears one bit of a string, which grows as far as needed, and returns what the bit was.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update)}}, Run: setbit},
		{Command: spec.Command{Name: "getbit", Syntax: "GETBIT key offset",
			Group: spec.Bitmap, Since: "2.2.0", Complexity: "O(1)",
			Summary: "Returns one bit of a string; behind its end all bits are 0.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: getbit},
		{Command: spec.Command{Name: "bitcount", Syntax: "BITCOUNT key [start end [BYTE | BIT]]",
			Group: spec.Bitmap, Since: "2.6.0", Complexity: "O(N) with N the length of the part",
			Summary: "Counts the bits that are set in a string or in a part of it.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: bitcount},
		{Command: spec.Command{Name: "bitpos", Syntax: "BITPOS key bit [start [end [BYTE | BIT]]]",
			Group: spec.Bitmap, Since: "2.8.7", Complexity: "O(N) with N the length of the part",
			Summary: "Finds the first bit that is set, or that is clear, in a string or in a part of it.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: bitpos},
		{Command: spec.Command{Name: "bitop", Syntax: "BITOP operation destkey key [key ...]",
			Group: spec.Bitmap, Since: "2.6.0", Complexity: "O(N*M) with N the length of the longest string and M the number of strings",
			Summary: "Combines strings bit by bit with AND, OR, XOR or NOT and stores the result.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.KeyAt(2, spec.OW|spec.Update), spec.KeysFrom(3, spec.RO|spec.Access)}}, Run: bitop, Reads: true},
		{Command: spec.Command{Name: "bitfield", Syntax: "BITFIELD key [<GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value:integer | INCRBY encoding offset increment>> [<GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value:integer | INCRBY encoding offset increment>> ...]]",
			Group: spec.Bitmap, Since: "3.2.0", Complexity: "O(M) with M the number of operations",
			Differs: "A call whose writes all FAIL, but that makes the string longer, is a change for WATCH. SAT SET of a value " +
				"near -2^63 to a signed type under 64 bits stores the least number; Redis overflows and stores the " +
				"greatest. `#n` is refused where its product with the width overflows.",
			Summary: "Reads, sets and adds to integers of any width that lie in a string.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Update | spec.VariableFlags)}, GetKeys: spec.BitfieldKeys},
			Run: bitfield(false)},
		{Command: spec.Command{Name: "bitfield_ro", Syntax: "BITFIELD_RO key [GET encoding offset [GET encoding offset ...]]",
			Group: spec.Bitmap, Since: "6.0.0", Complexity: "O(M) with M the number of operations",
			Differs: "`#n` is refused where its product with the width overflows.",
			Summary: "Reads integers of any width that lie in a string.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: bitfield(true)},
	}
}

// maxStringBits is the number of bits of the longest string.
const maxStringBits = maxStringBytes * 8

// bitOffset takes the offset of a bit. Where the bits come in fields of a width, "#n" is the n-th field's first bit.
func (a *arguments) bitOffset(width int64) int64 {
	arg, scale := a.bytes(), int64(1)
	if rest, ok := bytes.CutPrefix(arg, []byte("#")); ok && width > 0 {
		arg, scale = rest, width
	}
	n, ok := parseInt(arg)
	if !ok || n < 0 || n > (maxStringBits-1)/scale {
		a.fail(resp.ErrBitOffset)
		return 0
	}
	return n * scale
}

// bit takes a 0 or a 1; otherwise is the error for any other integer, notInteger for none.
func (a *arguments) bit(notInteger, otherwise error) byte {
	n, ok := parseInt(a.bytes())
	switch {
	case !ok:
		a.fail(notInteger)
	case n != 0 && n != 1:
		a.fail(otherwise)
	}
	return byte(n)
}

// SETBIT key offset value
func setbit(c *Call) error {
	a := c.args(1)
	offset, bit := a.bitOffset(0), a.bit(resp.ErrBitValue, resp.ErrBitValue)
	if err := a.done(); err != nil {
		return err
	}
	t, err := c.bitString()
	if err != nil {
		return err
	}
	before, err := t.read(offset, 1)
	if err != nil {
		return err
	}
	c.Out.Int(int64(before))
	if offset/8 < t.Len() && byte(before) == bit {
		return nil
	}
	err = t.write(offset, 1, uint64(bit))
	c.notify(shard.NoteString, "setbit", c.key())
	return err
}

// bitString is a string that is read and written by bits.
type bitString struct{ shard.String }

// bitString is the string at the call's key.
func (c *Call) bitString() (bitString, error) {
	t, err := c.DB().StringOf(c.key())
	return bitString{t}, err
}

// read reads so many bits, 64 at most, from the offset on.
func (t bitString) read(offset int64, width uint) (uint64, error) {
	val, err := t.Part(offset/8, (offset+int64(width)-1)/8)
	return bitsAt(val, offset%8, width), err
}

// write writes the lowest bits of n, so many of them, 64 at most, from the offset on.
func (t bitString) write(offset int64, width uint, n uint64) error {
	var val [9]byte
	first, last := offset/8, (offset+int64(width)-1)/8
	before, err := t.Part(first, last)
	if err != nil {
		return err
	}
	copy(val[:], before)
	putBits(val[:], offset%8, width, n)
	return t.Write(first, val[:last-first+1])
}

// grow makes the string long enough to have the bit.
func (t bitString) grow(bit int64) error {
	if bit/8 < t.Len() {
		return nil
	}
	return t.Write(bit/8, []byte{0})
}

// bitsAt reads so many bits, 64 at most, from the offset on.
func bitsAt(val []byte, offset int64, width uint) (n uint64) {
	for left := width; left > 0; {
		var b byte
		if i := offset / 8; i < int64(len(val)) {
			b = val[i]
		}
		skip := uint(offset % 8)
		part := min(8-skip, left)
		n = n<<part | uint64(b<<skip>>(8-part))
		offset += int64(part)
		left -= part
	}
	return n
}

// putBits writes the lowest bits of n, so many of them, from the offset on. The string has to be long enough.
func putBits(val []byte, offset int64, width uint, n uint64) {
	for left := width; left > 0; {
		room := 8 - uint(offset%8)
		part := min(room, left)
		left -= part
		mask := byte(1<<part-1) << (room - part)
		b := &val[offset/8]
		*b = *b&^mask | byte(n>>left)<<(room-part)&mask
		offset += int64(part)
	}
}

// GETBIT key offset
func getbit(c *Call) error {
	a := c.args(1)
	offset := a.bitOffset(0)
	if err := a.done(); err != nil {
		return err
	}
	t, err := c.bitString()
	if err != nil {
		return err
	}
	bit, err := t.read(offset, 1)
	if err != nil {
		return err
	}
	c.Out.Int(int64(bit))
	return nil
}

// bitUnit takes BYTE or BIT, if an argument is left, and tells whether it is BIT.
func (a *arguments) bitUnit() bool {
	if len(a.rest) == 0 || a.token("BYTE") {
		return false
	}
	if !a.token("BIT") {
		a.fail(resp.ErrSyntax)
	}
	return true
}

// span turns start … end, both inclusive and negative when counted from the end, into the first and the last bit. The
// unit of both is a bit or a byte. It is not ok if the range is empty.
func (t bitString) span(start, end int64, inBits bool) (first, last int64, ok bool) {
	unit := int64(8)
	if inBits {
		unit = 1
	}
	total := t.Len() * 8 / unit
	if start < 0 {
		start = max(start+total, 0)
	}
	if end < 0 {
		end = max(end+total, 0)
	}
	end = min(end, total-1)
	if start > end {
		return 0, 0, false
	}
	return start * unit, end*unit + unit - 1, true
}

// BITCOUNT key [start end [BYTE | BIT]]
func bitcount(c *Call) error {
	t, err := c.bitString()
	if err != nil {
		return err
	}
	if !t.Exists() { // whatever the range is
		c.Out.Int(0)
		return nil
	}
	first, last, ok, err := t.countRange(c.args(1))
	if err != nil {
		return err
	}
	var n int64
	if ok {
		n, err = t.count(first, last)
	}
	c.Out.Int(n)
	return err
}

// countRange parses "[start end [BYTE | BIT]]" into the first and the last bit; it is not ok if there are none.
func (t bitString) countRange(a *arguments) (first, last int64, ok bool, err error) {
	switch len(a.rest) {
	case 0:
		return 0, t.Len()*8 - 1, t.Len() > 0, nil
	case 2, 3:
	default:
		return 0, 0, false, resp.ErrSyntax
	}
	start, end := a.integer(), a.integer()
	if start < 0 && end < 0 && start > end {
		return 0, 0, false, nil // whatever the unit is
	}
	inBits := a.bitUnit()
	if err := a.done(); err != nil {
		return 0, 0, false, err
	}
	first, last, ok = t.span(start, end, inBits)
	return first, last, ok, nil
}

// count counts the bits that are set from the first to the last.
func (t bitString) count(first, last int64) (n int64, err error) {
	err = t.Pieces(first/8, last/8, func(at int64, piece []byte) bool {
		n += countBits(piece, max(first-at*8, 0), min(last-at*8, int64(len(piece))*8-1))
		return true
	})
	return n, err
}

// countBits counts the bits that are set from the first to the last.
func countBits(val []byte, first, last int64) (n int64) {
	part := val[first/8 : last/8+1]
	outside := bits.OnesCount8(part[0]>>(8-first%8)) + bits.OnesCount8(part[len(part)-1]<<(last%8+1))
	for ; len(part) >= 8; part = part[8:] {
		n += int64(bits.OnesCount64(binary.BigEndian.Uint64(part)))
	}
	for _, b := range part {
		n += int64(bits.OnesCount8(b))
	}
	return n - int64(outside)
}

// BITPOS key bit [start [end [BYTE | BIT]]]
func bitpos(c *Call) error {
	a := c.args(1)
	bit := a.bit(resp.ErrNotInteger, resp.ErrBitArgument)
	if a.err != nil {
		return a.err
	}
	t, err := c.bitString()
	if err != nil {
		return err
	}
	if !t.Exists() { // whatever the range is
		c.Out.Int(-int64(bit))
		return nil
	}
	endGiven := len(a.rest) > 1
	first, last, ok, err := t.findRange(a)
	if err != nil {
		return err
	}
	pos := int64(-1)
	if ok {
		if pos, err = t.find(first, last, bit); err != nil {
			return err
		}
		// A string of ones is followed by zeros, unless the range ends with it.
		if pos < 0 && bit == 0 && !endGiven {
			pos = t.Len() * 8
		}
	}
	c.Out.Int(pos)
	return nil
}

// findRange parses "[start [end [BYTE | BIT]]]" into the first and the last bit; it is not ok if there are none.
func (t bitString) findRange(a *arguments) (first, last int64, ok bool, err error) {
	start, end, inBits := int64(0), int64(-1), false
	switch len(a.rest) {
	case 0:
	case 1:
		start = a.integer()
	case 2, 3:
		start = a.integer()
		last := arguments{rest: a.take(1)}
		inBits = a.bitUnit() // which Redis looks at before the end
		if a.err == nil {
			end = last.integer()
			a.fail(last.err)
		}
	default:
		a.fail(resp.ErrSyntax)
	}
	if err := a.done(); err != nil {
		return 0, 0, false, err
	}
	first, last, ok = t.span(start, end, inBits)
	return first, last, ok, nil
}

// find returns the position of the first bit of the given value from the first to the last, or -1.
func (t bitString) find(first, last int64, bit byte) (int64, error) {
	pos, next := int64(-1), first // next: the first bit that is still to be looked at
	err := t.Pieces(first/8, last/8, func(at int64, piece []byte) bool {
		if bit == 0 && at*8 > next {
			return false // what was skipped begins with a zero
		}
		pos = findBit(piece, max(first-at*8, 0), min(last-at*8, int64(len(piece))*8-1), bit)
		if pos >= 0 {
			pos += at * 8
		}
		next = (at + int64(len(piece))) * 8
		return pos < 0
	})
	if pos < 0 && bit == 0 && next <= last {
		pos = next
	}
	return pos, err
}

// findBit returns the position of the first bit of the given value from the first to the last, or -1.
func findBit(val []byte, first, last int64, bit byte) int64 {
	flip := bit - 1 // so that a 1 is looked for in any case
	for i := first / 8; i <= last/8; i++ {
		for i > first/8 && i+8 <= last/8 && binary.BigEndian.Uint64(val[i:]) == uint64(int8(flip)) {
			i += 8
		}
		found := val[i] ^ flip
		if i == first/8 {
			found &= 0xff >> (first % 8)
		}
		if i == last/8 {
			found &= 0xff << (7 - last%8)
		}
		if found != 0 {
			return i*8 + int64(bits.LeadingZeros8(found))
		}
	}
	return -1
}

// BITOP operation destkey key [key ...]
func bitop(c *Call) error {
	a := c.args(0)
	operation, ok := bitOperation(a)
	destination, keys := a.bytes(), a.all()
	switch {
	case !ok:
		return resp.ErrSyntax
	case operation == nil && len(keys) > 1:
		return resp.ErrBitopNot
	}
	sources := make([][]byte, len(keys))
	longest := 0
	for i, key := range keys {
		val, _, err := c.DB().Get(key)
		if err != nil {
			return err
		}
		sources[i], longest = val, max(longest, len(val))
	}
	if longest == 0 {
		c.Out.Int(0)
		deleted, err := c.DB().Delete(destination)
		c.notifyIf(deleted, shard.NoteGeneric, eventDel, destination)
		return err
	}
	if err := c.DB().CanHold(destination, shard.KindString); err != nil {
		return err
	}
	c.Out.Int(int64(longest))
	err := c.DB().Set(destination, combine(sources, longest, operation), 0)
	c.notify(shard.NoteString, "set", destination)
	return err
}

// bitOperation takes the name of an operation. NOT has no function, since it combines nothing.
func bitOperation(a *arguments) (operation func(x, y uint64) uint64, ok bool) {
	switch {
	case a.token("AND"):
		return func(x, y uint64) uint64 { return x & y }, true
	case a.token("OR"):
		return func(x, y uint64) uint64 { return x | y }, true
	case a.token("XOR"):
		return func(x, y uint64) uint64 { return x ^ y }, true
	}
	return nil, a.token("NOT")
}

// combine applies the operation to the sources, of which shorter ones end in zeros. Without an operation it inverts the
// only source.
func combine(sources [][]byte, longest int, operation func(x, y uint64) uint64) []byte {
	padded := make([]byte, (longest+7)/8*8)
	copy(padded, sources[0])
	if operation == nil {
		for i := range padded {
			padded[i] = ^padded[i]
		}
		return padded[:longest]
	}
	for _, source := range sources[1:] {
		for i := 0; i < len(padded); i += 8 {
			var word [8]byte
			if i < len(source) {
				copy(word[:], source[i:])
			}
			result := operation(binary.BigEndian.Uint64(padded[i:]), binary.BigEndian.Uint64(word[:]))
			binary.BigEndian.PutUint64(padded[i:], result)
		}
	}
	return padded[:longest]
}

// integerType is the type of an integer in a BITFIELD: i1 … i64, u1 … u63.
type integerType struct {
	signed bool
	width  uint
}

// integerType takes a type such as i16 or u8.
func (a *arguments) integerType() (t integerType) {
	arg := a.bytes()
	digits, widest := []byte(nil), int64(63)
	switch {
	case bytes.HasPrefix(arg, []byte("i")):
		t.signed, digits, widest = true, arg[1:], 64
	case bytes.HasPrefix(arg, []byte("u")):
		digits = arg[1:]
	}
	width, ok := parseInt(digits)
	if !ok || width < 1 || width > widest {
		a.fail(resp.ErrBitfieldType)
	}
	t.width = uint(width)
	return t
}

// limits are the least and the greatest number of the type.
func (t integerType) limits() (lowest, highest int64) {
	if t.signed {
		return -1 << (t.width - 1), 1<<(t.width-1) - 1
	}
	return 0, 1<<t.width - 1
}

// wrap takes the lowest bits of n as a number of the type.
func (t integerType) wrap(n uint64) int64 {
	unused := 64 - t.width
	if t.signed {
		return int64(n<<unused) >> unused
	}
	return int64(n << unused >> unused)
}

// overflow says what becomes of a number that its type can't hold.
type overflow uint8

const (
	overflowWrap overflow = iota
	overflowSaturate
	overflowFail
)

// add adds to a number and makes the sum fit the type; not ok if it does not fit and that is to fail. A negative number
// is too large for a type without a sign, as in Redis.
func (t integerType) add(n, by int64, o overflow) (sum int64, ok bool) {
	lowest, highest := t.limits()
	// The distances are computed without a sign, since they may need all 64 bits.
	above := n > highest || n < 0 && !t.signed || by > 0 && uint64(by) > uint64(highest)-uint64(n)
	below := n < lowest || by < 0 && -uint64(by) > uint64(n)-uint64(lowest)
	switch {
	case !above && !below:
		return n + by, true
	case o == overflowFail:
		return 0, false
	case o == overflowWrap:
		return t.wrap(uint64(n) + uint64(by)), true
	case above:
		return highest, true
	}
	return lowest, true
}

// bitfieldKind is what an operation of BITFIELD does.
type bitfieldKind uint8

const (
	bitfieldGet bitfieldKind = iota
	bitfieldSet
	bitfieldIncrBy
)

// bitfieldOp is one operation of BITFIELD.
type bitfieldOp struct {
	kind     bitfieldKind
	of       integerType
	offset   int64
	operand  int64
	overflow overflow
}

// parseBitfield parses the operations. lastWritten is the last bit that one of them writes, -1 if they only read.
func parseBitfield(a *arguments) (ops []bitfieldOp, lastWritten int64, err error) {
	lastWritten = -1
	var mode overflow
	for a.more() {
		op := bitfieldOp{overflow: mode}
		switch left := len(a.rest) - 1; {
		case left >= 2 && a.token("GET"):
		case left >= 3 && a.token("SET"):
			op.kind = bitfieldSet
		case left >= 3 && a.token("INCRBY"):
			op.kind = bitfieldIncrBy
		case left >= 1 && a.token("OVERFLOW"):
			mode = a.overflow()
			continue
		default:
			return nil, 0, resp.ErrSyntax
		}
		op.of = a.integerType()
		op.offset = a.bitOffset(int64(op.of.width))
		if op.kind != bitfieldGet {
			op.operand = a.integer()
			lastWritten = max(lastWritten, op.offset+int64(op.of.width)-1)
		}
		ops = append(ops, op)
	}
	return ops, lastWritten, a.err
}

// overflow takes WRAP, SAT or FAIL.
func (a *arguments) overflow() overflow {
	switch {
	case a.token("WRAP"):
		return overflowWrap
	case a.token("SAT"):
		return overflowSaturate
	case a.token("FAIL"):
		return overflowFail
	}
	a.fail(resp.ErrBitfieldOverflow)
	return overflowWrap
}

// BITFIELD key [GET encoding offset | OVERFLOW <WRAP | SAT | FAIL> | SET encoding offset value |
// INCRBY encoding offset increment ...], BITFIELD_RO key [GET encoding offset [GET encoding offset ...]]
func bitfield(readOnly bool) Handler {
	return func(c *Call) error {
		ops, lastWritten, err := parseBitfield(c.args(1))
		if err != nil {
			return err
		}
		writes := lastWritten >= 0
		if writes && readOnly {
			return resp.ErrBitfieldReadOnly
		}
		c.tx.CountLookups(!writes)
		t, err := c.bitString()
		if err != nil {
			return err
		}
		before, changed := t.Len(), false
		if writes {
			if err := t.grow(lastWritten); err != nil {
				return err
			}
		}
		grew := t.Len() > before
		c.Out.Array(len(ops))
		for i := range ops {
			wrote, differs, err := ops[i].run(t, c.Out)
			if err != nil {
				return err
			}
			changed = changed || wrote && (grew || differs)
		}
		c.notifyIf(changed, shard.NoteString, "setbit", c.key())
		return nil
	}
}

// run carries out the operation, replies, and tells whether it has written, and something else than there was.
func (op *bitfieldOp) run(t bitString, out *resp.Writer) (wrote, differs bool, err error) {
	raw, err := t.read(op.offset, op.of.width)
	if err != nil {
		return false, false, err
	}
	old := op.of.wrap(raw)
	if op.kind == bitfieldGet {
		out.Int(old)
		return false, false, nil
	}
	n, by := op.operand, int64(0)
	if op.kind == bitfieldIncrBy {
		n, by = old, op.operand
	}
	n, ok := op.of.add(n, by, op.overflow)
	if !ok {
		out.Null()
		return false, false, nil
	}
	if op.kind == bitfieldSet {
		out.Int(old)
	} else {
		out.Int(n)
	}
	if n == old {
		return true, false, nil
	}
	return true, true, t.write(op.offset, op.of.width, uint64(n))
}
