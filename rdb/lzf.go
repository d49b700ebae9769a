package rdb

// LZF is a sequence of runs. A control byte begins each:
//
//	000lllll                      l+1 literal bytes follow
//	lllooooo oooooooo             l+2 bytes from o+1 bytes back in the output, if l < 7
//	111ooooo llllllll oooooooo    l+9 bytes from o+1 bytes back
//
// A copy may reach into what it produces itself.
const (
	lzfMaxLiteral = 32
	lzfMaxOffset  = 1 << 13
	lzfMaxCopy    = 264
	// lzfMaxRatio is the greatest growth that three bytes can bring about.
	lzfMaxRatio = lzfMaxCopy / 3
)

// lzfDecompress returns the n bytes that were compressed; not ok if it is anything else.
func lzfDecompress(in []byte, n int) (out []byte, ok bool) {
	out = make([]byte, 0, n)
	for len(in) > 0 {
		control := int(in[0])
		in = in[1:]
		if control < lzfMaxLiteral {
			run := control + 1
			if run > len(in) || run > n-len(out) {
				return nil, false
			}
			out = append(out, in[:run]...)
			in = in[run:]
			continue
		}
		length := control >> 5
		if length == 7 {
			if len(in) == 0 {
				return nil, false
			}
			length += int(in[0])
			in = in[1:]
		}
		length += 2
		if len(in) == 0 {
			return nil, false
		}
		from := len(out) - (control&0x1f)<<8 - int(in[0]) - 1
		in = in[1:]
		if from < 0 || length > n-len(out) {
			return nil, false
		}
		for range length {
			out = append(out, out[from])
			from++
		}
	}
	return out, len(out) == n
}

// lzfHashBits is the size of the table of places where three bytes were seen last. With this size, this hash and the
// places that are entered after a copy, what is found is what Redis' compressor finds, so that payloads are equal.
const lzfHashBits = 16

func lzfHash(in []byte) uint16 {
	h := uint32(in[0])<<16 | uint32(in[1])<<8 | uint32(in[2])
	return uint16(h>>(24-lzfHashBits) - h*5)
}

// lzfPlaces has, for each hash, the place where such bytes were seen last; 0 stands for none. It is made once for all
// strings of a value, and is all zero between them.
type lzfPlaces [1 << lzfHashBits]int32

// lzfWriter writes runs and gives up once there is no room: then compression is not worth it.
type lzfWriter struct {
	out     []byte
	limit   int
	literal int // where the control byte of the open literal run stands
	run     int // literal bytes in it
	full    bool
}

// byte adds a literal byte.
func (w *lzfWriter) byte(c byte) {
	if len(w.out) >= w.limit {
		w.full = true
		return
	}
	w.out = append(w.out, c)
	if w.run++; w.run == lzfMaxLiteral {
		w.close()
		w.open()
	}
}

// open begins a run of literals. close ends it: an empty one leaves no trace.
func (w *lzfWriter) open() {
	w.literal, w.run = len(w.out), 0
	w.out = append(w.out, 0)
}

func (w *lzfWriter) close() {
	if w.run == 0 {
		w.out = w.out[:w.literal]
		return
	}
	w.out[w.literal] = byte(w.run - 1)
}

// copy adds a copy of length bytes from back bytes before.
func (w *lzfWriter) copy(back, length int) {
	w.close()
	if len(w.out)+4 >= w.limit { // with the control byte of the next literal run
		w.full = true
		return
	}
	offset, length := back-1, length-2
	if length < 7 {
		w.out = append(w.out, byte(offset>>8|length<<5))
	} else {
		w.out = append(w.out, byte(offset>>8|7<<5), byte(length-7))
	}
	w.out = append(w.out, byte(offset))
	w.open()
}

// compress compresses into at most limit bytes; not ok if that can't be done.
func (p *lzfPlaces) compress(in []byte, limit int) (out []byte, ok bool) {
	w := &lzfWriter{out: make([]byte, 0, limit+1), limit: limit}
	w.open()
	i := 0
	for i < len(in)-2 && !w.full {
		slot := &p[lzfHash(in[i:])]
		ref := int(*slot)
		*slot = int32(i)
		if ref == 0 || i-ref > lzfMaxOffset || in[ref] != in[i] || in[ref+1] != in[i+1] || in[ref+2] != in[i+2] {
			w.byte(in[i])
			i++
			continue
		}
		n := lzfMatch(in, ref, i)
		w.copy(i-ref, n)
		i += n
		if i >= len(in)-2 {
			break
		}
		p[lzfHash(in[i-2:])] = int32(i - 2)
		p[lzfHash(in[i-1:])] = int32(i - 1)
	}
	p.clear(in)
	if len(w.out)+3 > limit {
		return nil, false
	}
	for ; i < len(in) && !w.full; i++ {
		w.byte(in[i])
	}
	w.close()
	return w.out, !w.full && len(w.out) <= limit
}

// clear forgets the places of a string.
func (p *lzfPlaces) clear(in []byte) {
	if len(in) > len(p) {
		clear(p[:])
		return
	}
	for i := range max(len(in)-2, 0) {
		p[lzfHash(in[i:])] = 0
	}
}

// lzfMatch is how many bytes at i repeat those at ref, at least 3. Redis' compressor leaves the last two bytes of the input
// out of a longer match, unless they are within the first 19, which it compares without looking where the input ends.
func lzfMatch(in []byte, ref, i int) int {
	longest := min(len(in)-i-2, lzfMaxCopy)
	if longest > 16 {
		longest = max(longest, 19)
	}
	n := 3
	for n < longest && in[ref+n] == in[i+n] {
		n++
	}
	return n
}
