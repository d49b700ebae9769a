package commands

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// HyperLogLogs: estimates of how many different elements were added, within 0.81 %. The first half of the file has the
// commands, the second the algorithm and its representation, type hyperLogLog. That is Redis' own, byte for byte, so that
// values can be moved between the two with GET and SET: what is odd in it is part of the format.

func hyperLogLogCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "pfadd", Syntax: "PFADD key [element [element ...]]",
			Group: spec.HyperLogLog, Since: "2.8.9", Complexity: "O(1) for each element",
			Summary: "Adds elements to a HyperLogLog and tells whether its estimate may have changed.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Insert)}}, Run: pfadd},
		{Command: spec.Command{Name: "pfcount", Syntax: "PFCOUNT key [key ...]",
			Group: spec.HyperLogLog, Since: "2.8.9", Complexity: "O(N) with N the number of keys",
			Summary: "Estimates how many different elements were added to a HyperLogLog, or to several together.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RW|spec.Access)}}, Run: pfcount, Effects: true},
		{Command: spec.Command{Name: "pfmerge", Syntax: "PFMERGE destkey sourcekey [sourcekey ...]", Arity: -2,
			Group: spec.HyperLogLog, Since: "2.8.9", Complexity: "O(N) with N the number of keys",
			Summary: "Adds the elements of HyperLogLogs to another one.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Access | spec.Insert), spec.KeysFrom(2, spec.RO|spec.Access)}}, Run: pfmerge, Reads: true},
		{Command: spec.Command{Name: "pfdebug", Syntax: "PFDEBUG subcommand key",
			Group: spec.HyperLogLog, Since: "2.8.9", Complexity: "O(1)",
			Differs: "GETREG and TODENSE of a sparse value are changes for WATCH.",
			Summary: "Shows how a HyperLogLog is represented: GETREG, DECODE and ENCODING, or changes it: TODENSE.",
			Flags:   spec.Write | spec.DenyOOM | spec.Admin,
			Keys:    spec.Keys{spec.KeyAt(2, spec.RW|spec.Access)}, DocFlags: spec.SysCmd}, Run: pfdebug},
		{Command: spec.Command{Name: "pfselftest", Syntax: "PFSELFTEST",
			Group: spec.HyperLogLog, Since: "2.8.9", Complexity: "O(1)",
			Summary: "Checks that HyperLogLogs estimate well enough and alike in both representations.",
			Flags:   spec.Admin, DocFlags: spec.SysCmd}, Run: pfselftest},
	}
}

// openHLL reads the HyperLogLog at the key; not ok if there is none. It may not be changed in place.
func openHLL(db shard.DB, key []byte) (h hyperLogLog, ok bool, err error) {
	t, err := db.StringOf(key)
	if err != nil || !t.Exists() {
		return nil, false, err
	}
	header, err := t.Part(0, hllHeaderBytes-1)
	if err != nil {
		return nil, false, err
	}
	if !hyperLogLog(header).heads(t.Len()) {
		return nil, false, resp.ErrNotHyperLogLog
	}
	h, err = t.Part(0, t.Len()-1)
	return h, true, err
}

// openDraft reads the HyperLogLog at the key to change it. A new one counts as changed.
func openDraft(db shard.DB, key []byte) (hllDraft, error) {
	h, ok, err := openHLL(db, key)
	if err != nil {
		return hllDraft{}, err
	}
	if !ok {
		return newDraft(), nil
	}
	return hllDraft{hyperLogLog: h}, nil
}

// PFADD key [element [element ...]]
func pfadd(c *Call) error {
	h, err := openDraft(c.DB(), c.key())
	if err != nil {
		return err
	}
	for _, element := range c.args(1).all() {
		if err := h.raise(registerOf(element)); err != nil {
			return err
		}
	}
	c.Out.Int(oneIf(h.changed))
	if !h.changed {
		return nil
	}
	h.own()
	h.invalidate()
	err = putKeepingTTL(c.DB(), c.key(), h.hyperLogLog)
	c.notify(shard.NoteString, "pfadd", c.key())
	return err
}

// PFCOUNT key [key ...]
func pfcount(c *Call) error {
	if keys := c.args(0).all(); len(keys) > 1 {
		registers, _, err := mergeHLLs(c.DB(), keys)
		if err != nil {
			return err
		}
		c.Out.Int(registers.estimate())
		return nil
	}
	h, ok, err := openHLL(c.DB(), c.key())
	if err != nil {
		return err
	}
	if !ok {
		c.Out.Int(0)
		return nil
	}
	if n, ok := h.cached(); ok {
		c.Out.Int(n)
		return nil
	}
	var registers hllRegisters
	if err := h.mergeInto(&registers); err != nil {
		return err
	}
	n := registers.estimate()
	c.Out.Int(n)
	// The estimate is kept in the value, though the command only reads: as in Redis, and it costs more than to write it.
	h = slices.Clone(h)
	h.setCached(n)
	return putKeepingTTL(c.DB(), c.key(), h)
}

// mergeHLLs takes the highest value of each register in the HyperLogLogs at the keys, and tells whether one is dense.
func mergeHLLs(db shard.DB, keys [][]byte) (registers *hllRegisters, dense bool, err error) {
	registers = new(hllRegisters)
	for _, key := range keys {
		h, ok, err := openHLL(db, key)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			continue
		}
		if err := h.mergeInto(registers); err != nil {
			return nil, false, err
		}
		dense = dense || h.dense()
	}
	return registers, dense, nil
}

// PFMERGE destkey sourcekey [sourcekey ...]
func pfmerge(c *Call) error {
	registers, dense, err := mergeHLLs(c.DB(), c.args(0).all())
	if err != nil {
		return err
	}
	c.tx.CountLookups(false) // the destination was one of those that were merged
	h, err := openDraft(c.DB(), c.key())
	if err != nil {
		return err
	}
	if dense {
		if err := h.makeDense(); err != nil {
			return err
		}
	}
	for i, value := range registers {
		if value == 0 {
			continue
		}
		if err := h.raise(i, value); err != nil {
			return err
		}
	}
	c.Out.OK()
	h.own()
	h.invalidate()
	err = putKeepingTTL(c.DB(), c.key(), h.hyperLogLog)
	c.notify(shard.NoteString, "pfadd", c.key())
	return err
}

// PFDEBUG subcommand key
func pfdebug(c *Call) error {
	a := c.args(0)
	name, key := a.bytes(), a.bytes()
	h, ok, err := openHLL(c.DB(), key)
	switch {
	case err != nil:
		return err
	case !ok:
		return resp.ErrPFDebugNoKey
	case isToken(name, "GETREG"):
		return pfdebugRegisters(c, key, h)
	case isToken(name, "DECODE"):
		return pfdebugDecode(c, h)
	case isToken(name, "ENCODING"):
		if h.dense() {
			c.Out.Status("dense")
		} else {
			c.Out.Status("sparse")
		}
		return nil
	case isToken(name, "TODENSE"):
		c.Out.Int(oneIf(!h.dense()))
		return storeDense(c.DB(), key, h)
	}
	return resp.ErrPFDebugSubcommand(name)
}

// storeDense stores the HyperLogLog in the dense representation.
func storeDense(db shard.DB, key []byte, h hyperLogLog) error {
	if h.dense() {
		return nil
	}
	draft := hllDraft{hyperLogLog: h}
	if err := draft.makeDense(); err != nil {
		return err
	}
	return putKeepingTTL(db, key, draft.hyperLogLog)
}

// PFDEBUG GETREG key
func pfdebugRegisters(c *Call, key []byte, h hyperLogLog) error {
	var registers hllRegisters
	if err := h.mergeInto(&registers); err != nil {
		return err
	}
	c.Out.Array(len(registers))
	for _, value := range registers {
		c.Out.Int(int64(value))
	}
	return storeDense(c.DB(), key, h)
}

// PFDEBUG DECODE key
func pfdebugDecode(c *Call, h hyperLogLog) error {
	if h.dense() {
		return resp.ErrHLLNotSparse
	}
	var text []byte
	err := h.eachRun(func(_ int, r hllRun) {
		switch {
		case r.value > 0:
			text = append(text, " v:"...)
			text = strconv.AppendInt(text, int64(r.value), 10)
			text = append(text, ',')
		case r.bytes == 2:
			text = append(text, " Z:"...)
		default:
			text = append(text, " z:"...)
		}
		text = strconv.AppendInt(text, int64(r.length), 10)
	})
	if err != nil {
		return err
	}
	c.Out.Bulk(bytes.TrimPrefix(text, []byte(" ")))
	return nil
}

// PFSELFTEST
func pfselftest(c *Call) error {
	if err := testHyperLogLog(); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

const (
	selfTestElements  = 100_000
	selfTestTolerance = 5 * 1.04 / 128 // five standard errors; 128 is the root of the number of registers
)

// testHyperLogLog adds distinct elements in both representations, and with each power of ten compares the registers and
// the estimate.
func testHyperLogLog() error {
	sparse, dense := newDraft(), newDraft()
	if err := dense.makeDense(); err != nil {
		return err
	}
	check := 1
	for n := 1; n <= selfTestElements; n++ {
		index, value := registerOf(binary.BigEndian.AppendUint64(nil, uint64(n)))
		if sparse.raise(index, value) != nil || dense.raise(index, value) != nil {
			return resp.ErrHLLSelfTest("an element can't be added")
		}
		if n < check {
			continue
		}
		check *= 10
		var a, b hllRegisters
		if sparse.mergeInto(&a) != nil || dense.mergeInto(&b) != nil || a != b {
			return resp.ErrHLLSelfTest("the representations differ")
		}
		if math.Abs(float64(a.estimate()-int64(n))) > selfTestTolerance*float64(n) {
			return resp.ErrHLLSelfTest("too big error of the estimate")
		}
	}
	return nil
}

// The representation. A HyperLogLog is a string of
//
//	"HYLL" · representation u8 · 3 bytes of nothing · the last estimate, little-endian u64, its top bit set when outdated
//
// and 2^14 registers of 6 bits. An element's hash chooses a register with its low 14 bits; the register keeps the highest
// count of zeros, and one more, that the other 50 bits of such an element ended in.
//
// Dense, the registers follow each other, 6 bits each, beginning with the lowest bits of the first byte.
//
// Sparse, runs of equal registers follow each other:
//
//	00llllll           zero   1 …    64 registers, l+1, are 0
//	01llllll llllllll  zeros  1 … 16384 registers, l+1, are 0
//	1vvvvvll           value  1 …     4 registers, l+1, are v+1, which is 32 at most
//
// It starts sparse and becomes dense when a register exceeds 32 or the string would exceed sparseMaxBytes.
//
// The hash is MurmurHash64A (Austin Appleby, public domain). The estimate is Otmar Ertl's: "New cardinality estimation
// algorithms for HyperLogLog sketches", 2017, arXiv:1702.01284.
type hyperLogLog []byte

const (
	hllIndexBits      = 14
	hllRegisterCount  = 1 << hllIndexBits
	hllRegisterBits   = 6
	hllHashBits       = 64 - hllIndexBits // of an element's hash, those that are not the index
	hllMagic          = "HYLL"
	hllEncodingAt     = len(hllMagic)
	hllEstimateAt     = 8
	hllHeaderBytes    = 16
	hllDenseBytes     = hllHeaderBytes + hllRegisterCount*hllRegisterBits/8
	hllOutdated       = 1 << 63
	hllSeed           = 0xadc83b19
	hllSparseMaxBytes = 3000 // Redis' default for hll-sparse-max-bytes
)

const (
	hllDense byte = iota
	hllSparse
)

// Limits of the sparse runs.
const (
	maxZeroRun  = 64
	maxValueRun = 4
	maxRunValue = 32
)

// hllRegisters are the values of all registers.
type hllRegisters [hllRegisterCount]byte

// heads tells whether h is the header of a HyperLogLog of so many bytes. The runs may be corrupt all the same, which their
// readers find.
func (h hyperLogLog) heads(length int64) bool {
	if len(h) < hllHeaderBytes || string(h[:len(hllMagic)]) != hllMagic {
		return false
	}
	return h[hllEncodingAt] == hllSparse || h.dense() && length == hllDenseBytes
}

func (h hyperLogLog) dense() bool { return h[hllEncodingAt] == hllDense }

// cached returns the last estimate, if it holds still.
func (h hyperLogLog) cached() (n int64, ok bool) {
	estimate := binary.LittleEndian.Uint64(h[hllEstimateAt:])
	return int64(estimate), estimate&hllOutdated == 0
}

func (h hyperLogLog) setCached(n int64) { binary.LittleEndian.PutUint64(h[hllEstimateAt:], uint64(n)) }

// invalidate marks the last estimate as outdated; its other bits stay, as in Redis.
func (h hyperLogLog) invalidate() { h[hllEstimateAt+7] |= hllOutdated >> 56 }

// register reads a register of the dense representation.
func (h hyperLogLog) register(i int) byte {
	at, shift := hllHeaderBytes+i*hllRegisterBits/8, i*hllRegisterBits%8
	word := uint(h[at])
	if shift > 8-hllRegisterBits {
		word |= uint(h[at+1]) << 8
	}
	return byte(word>>shift) & (1<<hllRegisterBits - 1)
}

// setRegister writes a register of the dense representation.
func (h hyperLogLog) setRegister(i int, value byte) {
	at, shift := hllHeaderBytes+i*hllRegisterBits/8, i*hllRegisterBits%8
	const mask = 1<<hllRegisterBits - 1
	h[at] = h[at]&^byte(mask<<shift) | value<<shift
	if shift > 8-hllRegisterBits {
		h[at+1] = h[at+1]&^byte(mask>>(8-shift)) | value>>(8-shift)
	}
}

// hllRun is a run of equal registers in the sparse representation.
type hllRun struct {
	value  byte
	length int
	bytes  int // of its encoding
}

// firstRun decodes the run that b begins with. What is cut off has more bytes than there are.
func firstRun(b []byte) hllRun {
	switch {
	case b[0]&0x80 != 0:
		return hllRun{value: b[0]>>2&0x1f + 1, length: int(b[0]&0x03) + 1, bytes: 1}
	case b[0]&0x40 == 0:
		return hllRun{length: int(b[0]) + 1, bytes: 1}
	case len(b) < 2:
		return hllRun{bytes: 2}
	}
	return hllRun{length: int(b[0]&0x3f)<<8 + int(b[1]) + 1, bytes: 2}
}

// appendRun encodes a run, or nothing if the length is 0.
func appendRun(b []byte, value byte, length int) []byte {
	switch {
	case length == 0:
		return b
	case value > 0:
		return append(b, 0x80|(value-1)<<2|byte(length-1))
	case length <= maxZeroRun:
		return append(b, byte(length-1))
	}
	return append(b, 0x40|byte((length-1)>>8), byte(length-1))
}

// eachRun calls fn for every run of the sparse representation, with its first register. It fails if the runs do not make
// all registers.
func (h hyperLogLog) eachRun(fn func(first int, r hllRun)) error {
	first := 0
	for rest := h[hllHeaderBytes:]; len(rest) > 0; {
		r := firstRun(rest)
		if r.bytes > len(rest) || first+r.length > hllRegisterCount {
			return resp.ErrCorruptHyperLogLog
		}
		fn(first, r)
		first += r.length
		rest = rest[r.bytes:]
	}
	if first != hllRegisterCount {
		return resp.ErrCorruptHyperLogLog
	}
	return nil
}

// mergeInto raises the registers to those of h.
func (h hyperLogLog) mergeInto(registers *hllRegisters) error {
	if h.dense() {
		for i := range registers {
			registers[i] = max(registers[i], h.register(i))
		}
		return nil
	}
	return h.eachRun(func(first int, r hllRun) {
		if r.value == 0 {
			return
		}
		for i := first; i < first+r.length; i++ {
			registers[i] = max(registers[i], r.value)
		}
	})
}

// hllDraft is a HyperLogLog that is being changed. The value that it begins with stays as it is.
type hllDraft struct {
	hyperLogLog
	owned   bool // the bytes are the draft's own
	changed bool
}

// newDraft begins with an empty HyperLogLog.
func newDraft() hllDraft {
	h := make(hyperLogLog, hllHeaderBytes)
	copy(h, hllMagic)
	h[hllEncodingAt] = hllSparse
	return hllDraft{hyperLogLog: appendRun(h, 0, hllRegisterCount), owned: true, changed: true}
}

// own makes the bytes the draft's own.
func (d *hllDraft) own() {
	if !d.owned {
		d.hyperLogLog, d.owned = slices.Clone(d.hyperLogLog), true
	}
}

// makeDense changes to the dense representation.
func (d *hllDraft) makeDense() error {
	if d.dense() {
		return nil
	}
	dense := make(hyperLogLog, hllDenseBytes)
	copy(dense, d.hyperLogLog[:hllHeaderBytes])
	dense[hllEncodingAt] = hllDense
	err := d.eachRun(func(first int, r hllRun) {
		if r.value == 0 {
			return
		}
		for i := first; i < first+r.length; i++ {
			dense.setRegister(i, r.value)
		}
	})
	if err != nil {
		return err
	}
	d.hyperLogLog, d.owned = dense, true
	return nil
}

// raise gives the register the value unless it has this or a higher one.
func (d *hllDraft) raise(index int, value byte) error {
	if !d.dense() {
		done, err := d.raiseSparse(index, value)
		if done || err != nil {
			return err
		}
		if err := d.makeDense(); err != nil {
			return err
		}
	}
	if d.register(index) < value {
		d.own()
		d.setRegister(index, value)
		d.changed = true
	}
	return nil
}

// raiseSparse is raise in the sparse representation; it is not done where that can't hold the value any more.
func (d *hllDraft) raiseSparse(index int, value byte) (done bool, err error) {
	if value > maxRunValue {
		return false, nil
	}
	h := d.hyperLogLog
	at, previous, first := hllHeaderBytes, hllHeaderBytes, 0
	var r hllRun
	for {
		if at >= len(h) {
			return false, resp.ErrCorruptHyperLogLog
		}
		if r = firstRun(h[at:]); r.bytes > len(h)-at {
			return false, resp.ErrCorruptHyperLogLog
		}
		if index < first+r.length {
			break
		}
		previous = at
		at += r.bytes
		first += r.length
	}
	if r.value >= value {
		return true, nil
	}
	// The run becomes what stands before the register, the register, and what stands behind it.
	var room [5]byte
	parts := appendRun(room[:0], r.value, index-first)
	parts = appendRun(parts, value, 1)
	parts = appendRun(parts, r.value, first+r.length-1-index)
	if growth := len(parts) - r.bytes; growth > 0 && len(h)+growth > hllSparseMaxBytes {
		return false, nil
	}
	d.own()
	d.hyperLogLog = slices.Replace(d.hyperLogLog, at, at+r.bytes, parts...)
	d.joinRuns(previous)
	d.changed = true
	return true, nil
}

// joinRuns joins neighbouring runs of one value where the sum of their lengths is allowed. It takes five steps from the given
// place on, as Redis does: no further than a change of one register reaches.
func (d *hllDraft) joinRuns(at int) {
	h := d.hyperLogLog
	for range 5 {
		if at >= len(h) {
			break
		}
		r := firstRun(h[at:])
		if r.value > 0 && at+1 < len(h) {
			if next := firstRun(h[at+1:]); next.value == r.value && r.length+next.length <= maxValueRun {
				h = slices.Delete(h, at, at+1)
				appendRun(h[:at], r.value, r.length+next.length) // in place of the second
				continue
			}
		}
		at += r.bytes
	}
	d.hyperLogLog = h
}

// registerOf returns the register that the element belongs to, and its value for it.
func registerOf(element []byte) (index int, value byte) {
	hash := murmurHash64A(element, hllSeed)
	index = int(hash & (hllRegisterCount - 1))
	// A bit behind the others ends the search.
	rest := hash>>hllIndexBits | 1<<hllHashBits
	return index, byte(bits.TrailingZeros64(rest) + 1)
}

// murmurHash64A is the 64-bit MurmurHash2 for 64-bit processors.
func murmurHash64A(b []byte, seed uint64) uint64 {
	const (
		multiplier = 0xc6a4a7935bd1e995
		shift      = 47
	)
	h := seed ^ uint64(len(b))*multiplier
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * multiplier
		k ^= k >> shift
		h = (h ^ k*multiplier) * multiplier
	}
	if len(b) > 0 {
		var tail [8]byte
		copy(tail[:], b)
		h = (h ^ binary.LittleEndian.Uint64(tail[:])) * multiplier
	}
	h = (h ^ h>>shift) * multiplier
	return h ^ h>>shift
}

// estimate is the number of different elements that the registers stand for. The order of the operations is the one that
// Redis' rounding comes from.
func (r *hllRegisters) estimate() int64 {
	const (
		alpha = 0.721347520444481703680 // 1 / (2 ln 2)
		m     = float64(hllRegisterCount)
	)
	var histogram [1 << hllRegisterBits]int
	for _, value := range r {
		histogram[value&(1<<hllRegisterBits-1)]++
	}
	z := m * hllTau((m-float64(histogram[hllHashBits+1]))/m)
	for value := hllHashBits; value >= 1; value-- {
		z += float64(histogram[value])
		z *= 0.5
	}
	z += float64(m * hllSigma(float64(histogram[0])/m))
	n := math.Round(alpha * m * m / z)
	if n >= 1<<63 {
		return math.MinInt64 // only with registers that were made up; it is what C makes of it on x86-64
	}
	return int64(n)
}

// hllSigma corrects for registers that are 0: x is their part of all. (In Ertl's paper σ.)
func hllSigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := math.NaN(); z != before; y += y {
		x *= x
		before = z
		z += float64(x * y)
	}
	return z
}

// hllTau corrects for registers that are full: x is the part of all that are not. (In Ertl's paper τ.)
func hllTau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := math.NaN(); z != before; {
		x = math.Sqrt(x)
		before = z
		y *= 0.5
		z -= float64((1 - x) * (1 - x) * y)
	}
	return z / 3
}
